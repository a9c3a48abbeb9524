// Which run writes a packed file and how far it has come, written next to the partial file so that another
// run can go on where that one ended: `<output>.partial.journal`.
//
// Text, one entry a line: eight hexadecimal digits, the CRC-32 of the rest; a space; a JSON object. The first
// line identifies the run (RunIdentity). Each further line says that a tensor is complete, where its blobs
// are in the file and what quantization did to it. A line is appended once the bytes that it describes were
// written, so a killed run leaves a true prefix and perhaps a torn last line, which is ignored. A run that
// rounds layers on samples has the first line alone: each of its files is whole or absent (station_files.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/input_file.h"
#include "formats/checkpoint/checkpoint.h"
#include "formats/crumb_file/crumb_file.h"

namespace crumb {

/// Two runs with equal identities write the same bytes.
struct RunIdentity {
  struct Input {
    std::string name;  ///< of the file, without its folder
    uint64_t size = 0;
    int64_t modified_ns = 0;  ///< 0 where the checksum of the contents replaces it
    int64_t changed_ns = 0;   ///< the same: ctime, which nobody can set back
    uint32_t crc = 0;         ///< of the contents, for small files that go with the tensors
    bool operator==(const Input&) const = default;
  };
  std::string version;  ///< of the program
  std::string work;     ///< what the run does, for people: "quantizes tensors one by one"
  std::string recipe;   ///< resolved
  uint32_t plan = 0;    ///< CRC-32 of the planned header
  std::vector<Input> inputs;

  bool operator==(const RunIdentity&) const = default;
};

RunIdentity::Input input_of(const InputFile& file);
/// Returns all files of a checkpoint.
std::vector<RunIdentity::Input> inputs_of(const Checkpoint& checkpoint);

/// Returns what differs, for people: "the input 'model.safetensors' has 10 bytes, then it had 20". Empty
/// where nothing differs.
std::string difference(const RunIdentity& then, const RunIdentity& now);

/// A tensor that is complete in the partial file.
struct JournalEntry {
  uint64_t tensor = 0;      ///< its index in the plan
  std::vector<Blob> blobs;  ///< its parts, in order
  double sqnr_db = 0;
  double max_abs_error = 0;
  uint64_t saturated_scales = 0;
};

struct JournalContents {
  RunIdentity identity;
  uint64_t begin = 0;                 ///< where the first line ends in the file
  std::vector<JournalEntry> entries;  ///< of tensors 0, 1, ... without a gap
  std::vector<uint64_t> ends;         ///< where the entries' lines end in the file
};

/// Writes the journal of a run. Every failure throws Error.
class RunJournal {
 public:
  static std::filesystem::path path_of(const std::filesystem::path& output);

  /// Reads what an earlier run left; nothing where there is no journal or its first line is torn.
  static std::optional<JournalContents> read(const std::filesystem::path& output);

  /// Returns what an earlier run left, for this run to go on from; nothing where there is nothing. Throws
  /// Error where another run left it, and says what differs.
  static std::optional<JournalContents> to_continue(const std::filesystem::path& output,
                                                    const RunIdentity& identity);

  /// Removes what an earlier run left: its journal, and its files of stations. Throws Error where a file
  /// there is not Crumb's, or is an input.
  static void discard(const std::filesystem::path& output);

  /// Begins a new journal and discards what was there, or continues the journal that is there after its first
  /// `continued` bytes, which end with one of its lines.
  RunJournal(const std::filesystem::path& output, const RunIdentity& identity, uint64_t continued = 0);
  ~RunJournal();
  RunJournal(const RunJournal&) = delete;
  RunJournal& operator=(const RunJournal&) = delete;

  void add(const JournalEntry& entry);

  /// Whether the file stays when the journal is destroyed; unless this is called it does not.
  void keep(bool keeps) { keeps_ = keeps; }

 private:
  void write_line(const std::string& json);

  std::filesystem::path path_;
  int fd_ = -1;
  bool keeps_ = false;
};

}  // namespace crumb

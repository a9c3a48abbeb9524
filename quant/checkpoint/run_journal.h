// What a run into a packed file wrote down of its progress, beside the partial file, so that another run can go
// on where it was ended: `<output>.partial.journal`.
//
// Text, a line an entry: eight hexadecimal digits, the CRC-32 of the rest, a space, a JSON object. The first
// line says of what the run is one (RunIdentity), each further line that a tensor is complete: where its blobs
// lie and what quantization did to it. Lines are appended once the bytes they speak of were written, so a
// killed run leaves a true prefix and perhaps a torn last line, which is ignored.
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
    int64_t modified_ns = 0;  ///< 0 where the contents' checksum says more
    int64_t changed_ns = 0;   ///< the same: ctime, which nobody can set back
    uint32_t crc = 0;         ///< of the contents, for small files beside the tensors
    bool operator==(const Input&) const = default;
  };
  std::string version;  ///< of the program
  std::string recipe;   ///< resolved
  uint32_t plan = 0;    ///< CRC-32 of the planned header
  std::vector<Input> inputs;

  bool operator==(const RunIdentity&) const = default;
};

RunIdentity::Input input_of(const InputFile& file);
/// All files of a checkpoint.
std::vector<RunIdentity::Input> inputs_of(const Checkpoint& checkpoint);

/// What differs, for people: "the input 'model.safetensors' has 10 bytes, then it had 20". Empty where nothing
/// does.
std::string difference(const RunIdentity& then, const RunIdentity& now);

/// As one line, and back; nothing where it is none.
std::string text_of(const RunIdentity& identity);
std::optional<RunIdentity> identity_of(std::string_view text);

/// A tensor that is complete in the partial file.
struct JournalEntry {
  uint64_t tensor = 0;      ///< its place in the plan
  std::vector<Blob> blobs;  ///< its parts, in order
  double sqnr_db = 0;
  double max_abs_error = 0;
  uint64_t saturated_scales = 0;
};

struct JournalContents {
  RunIdentity identity;
  std::vector<JournalEntry> entries;  ///< of tensors 0, 1, ... without a gap
  std::vector<uint64_t> ends;         ///< where the entries' lines end in the file
};

/// Writes the journal of a run. Every failure throws Error.
class RunJournal {
 public:
  static std::filesystem::path path_of(const std::filesystem::path& output);

  /// What an earlier run left; nothing where there is no journal or its first line is torn.
  static std::optional<JournalContents> read(const std::filesystem::path& output);

  /// Removes what an earlier run left. Throws Error where what lies there is no journal of Crumb's, or is an input.
  static void discard(const std::filesystem::path& output);

  /// Begins a journal anew, or goes on after the first `continued` bytes of the one that is there: an end of
  /// one of its lines.
  RunJournal(const std::filesystem::path& output, const RunIdentity& identity, uint64_t continued = 0);
  ~RunJournal();
  RunJournal(const RunJournal&) = delete;
  RunJournal& operator=(const RunJournal&) = delete;

  void add(const JournalEntry& entry);

  /// Whether the file stays when the journal is destroyed; it does not unless told to.
  void keep(bool keeps) { keeps_ = keeps; }

 private:
  void write_line(const std::string& json);

  std::filesystem::path path_;
  int fd_ = -1;
  bool keeps_ = false;
};

}  // namespace crumb

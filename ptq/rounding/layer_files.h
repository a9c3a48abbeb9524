// A LayerStore of files, from which an interrupted run continues, and which keep the codes of finished layers
// out of memory: `<output>.partial.layers/` has a packed file for each station, 00000.crumb and so on, with
// the layers' codes as tensors, and `layers.json` with what else is known about them and their run
// (RunIdentity). A file appears when it is complete; damaged files, and those after one, are not used.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/output_file.h"
#include "formats/crumb_file/crumb_file.h"
#include "ptq/rounding/layer_store.h"
#include "quant/checkpoint/run_journal.h"

namespace crumb::ptq {

class LayerFiles final : public LayerStore {
 public:
  static std::filesystem::path folder_of(const std::filesystem::path& output);

  /// For a run that will write `output`, which stays locked against other runs until unlock(). `resume`:
  /// continues from what an earlier run left, and keeps what this one does not finish; else both are removed.
  /// Throws Error where another run writes the output, where the folder cannot be created, and, with
  /// `resume`, where another run's files are left (the message says what differs).
  LayerFiles(const std::filesystem::path& output, const RunIdentity& identity, bool resume);
  ~LayerFiles() override;
  LayerFiles(const LayerFiles&) = delete;
  LayerFiles& operator=(const LayerFiles&) = delete;

  /// For a run of another kind, which has no such files and holds the lock of `output`. Without `resume`,
  /// removes what an earlier run left. With it, throws Error if there is anything (the message says what
  /// differs).
  static void settle(const std::filesystem::path& output, const RunIdentity& identity, bool resume);

  std::size_t continued() const { return continued_; }  ///< layers that an earlier run finished

  std::optional<std::vector<StoredLayer>> next(const std::vector<std::string>& constants) override;
  std::vector<StoredLayer> keep(std::vector<StoredLayer> layers) override;

  /// Called by the code that writes the output.
  void unlock() { lock_.reset(); }
  /// Called when the output is written: no run will continue.
  void finish() { keeps_ = false; }

 private:
  std::filesystem::path path(std::size_t station) const;
  void take_over(const std::filesystem::path& output, const RunIdentity& identity);
  void remove_from(std::size_t station) const;

  std::filesystem::path folder_;
  std::string identity_;
  bool keeps_;
  std::optional<OutputFile> lock_;
  std::vector<std::vector<StoredLayer>> left_;  ///< left by an earlier run
  std::size_t continued_ = 0, next_ = 0;
  std::vector<std::shared_ptr<const QuantizedTensor>> passed_;  ///< whose codes are in files
};

}  // namespace crumb::ptq

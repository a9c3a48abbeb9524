// A LayerStore of files, from which a run that was ended goes on, and which keep the codes of finished layers out of memory:
// `<output>.partial.layers/`, a packed file for each station, 00000.crumb and so on, with the layers' codes as tensors and
// `layers.json`, what else is known of them, and of what run they are (RunIdentity). A file appears when it is whole; of files that
// are damaged, or behind one that is, nothing is taken over.
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

  /// Of a run that will write `output`, which stays locked against others until unlock(). `resume`: takes over what an earlier
  /// run left, and leaves what this one does not finish; else both are removed. Throws Error where another run writes the output,
  /// where the folder cannot be made, and, with resume, where what was left is of another run (naming what differs).
  LayerFiles(const std::filesystem::path& output, const RunIdentity& identity, bool resume);
  ~LayerFiles() override;
  LayerFiles(const LayerFiles&) = delete;
  LayerFiles& operator=(const LayerFiles&) = delete;

  /// For a run of another kind, which has no such files and holds the lock of `output`: without `resume` what an earlier run left is
  /// removed. With it, Error where there is something (naming what differs).
  static void settle(const std::filesystem::path& output, const RunIdentity& identity, bool resume);

  std::size_t continued() const { return continued_; }  ///< layers that an earlier run had finished

  std::optional<std::vector<StoredLayer>> next(const std::vector<std::string>& constants) override;
  std::vector<StoredLayer> keep(std::vector<StoredLayer> layers) override;

  /// For whoever writes the output.
  void unlock() { lock_.reset(); }
  /// The output is written: nothing is to be continued.
  void finish() { keeps_ = false; }

 private:
  std::filesystem::path path(std::size_t station) const;
  void take_over(const std::filesystem::path& output, const RunIdentity& identity);
  void remove_from(std::size_t station) const;

  std::filesystem::path folder_;
  std::string identity_;
  bool keeps_;
  std::optional<OutputFile> lock_;
  std::vector<std::vector<StoredLayer>> left_;  ///< by an earlier run
  std::size_t continued_ = 0, next_ = 0;
  std::vector<std::shared_ptr<const QuantizedTensor>> passed_;  ///< that lie in files
};

}  // namespace crumb::ptq

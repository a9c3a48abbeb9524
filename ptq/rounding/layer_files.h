// A LayerStore of files, from which an interrupted run continues, and which keep the codes of finished layers
// out of memory: a packed file for each station (quant/checkpoint/station_files.h), with the layers' codes as
// tensors, and `layers.json` with what else is known about them. The run's journal says whose they are. A
// file appears when it is complete; damaged files, and those after one, are not used.
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
#include "quant/checkpoint/station_files.h"

namespace crumb::ptq {

class LayerFiles final : public LayerStore {
 public:
  /// For a run that will write `output`, which stays locked against other runs until unlock(). `resume`:
  /// continues from what an earlier run left, and keeps what this one does not finish; else both are removed.
  /// Throws Error where another run writes the output, where the folder cannot be created, and, with
  /// `resume`, where another run's files are left (the message says what differs).
  LayerFiles(const std::filesystem::path& output, const RunIdentity& identity, bool resume);
  ~LayerFiles() override;
  LayerFiles(const LayerFiles&) = delete;
  LayerFiles& operator=(const LayerFiles&) = delete;

  std::size_t continued() const { return continued_; }  ///< layers that an earlier run finished

  std::optional<std::vector<StoredLayer>> next(const std::vector<std::string>& constants) override;
  std::vector<StoredLayer> keep(std::vector<StoredLayer> layers) override;

  /// Called by the code that writes the output.
  void unlock() { lock_.reset(); }
  /// Called when the output is written: no run will continue.
  void finish();

 private:
  void take_over();

  StationFiles files_;
  bool keeps_;
  std::optional<OutputFile> lock_;
  std::optional<RunJournal> journal_;
  std::vector<std::vector<StoredLayer>> left_;  ///< left by an earlier run
  std::size_t continued_ = 0, next_ = 0;
  std::vector<std::shared_ptr<const QuantizedTensor>> passed_;  ///< whose codes are in files
};

}  // namespace crumb::ptq

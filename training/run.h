// One training run into its folder: the trainer trains, this keeps what has to be kept and writes the
// results.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>

#include "tasks/train/trainer.h"
#include "training/json.h"

namespace crumb::training {

struct TrainRun {
  tasks::TrainRequest request;
  std::filesystem::path folder;  ///< made where it does not exist
  int keep_every = 0;            ///< steps between two states; 0: five seconds
  bool restart = false;          ///< whether an unfinished run in the folder is dropped
  bool shares_float = false;     ///< with other runs of this process
  std::string profile;           ///< what shall take the network; "": nobody in particular
  std::function<void(const tasks::TrainProgress&)> progress;
};

/// Trains, writes the run's folder, and gives what stands in report.json.
///
/// Writes model.crumb, model.onnx, float.safetensors, log.jsonl and, last, report.json into the folder, and
/// goes on from the state that an unfinished run of the same request kept there (checkpoint.state). The
/// certificates of both models are recomputed from the files. Of a request for the float network alone:
/// float.onnx, calibration.npy, valid.npy, labels.npy, log.jsonl and report.json. Throws what Trainer::train
/// does, and Error where a certificate is wrong.
Json train_into(const TrainRun& run, tasks::Trainer& trainer);

/// The report that a finished run of the same request left in the folder; null where there is none.
Json finished_report(const tasks::TrainRequest& request, const std::filesystem::path& folder);

}  // namespace crumb::training

// Shows the progress of crumb train on stderr.
#pragma once

#include "cli/progress_text.h"
#include "tasks/train/trainer.h"
#include "training/sweep.h"

namespace crumb::cli {

/// Shows the progress of one run.
class TrainLine {
 public:
  void update(const tasks::TrainProgress& progress);

 private:
  ProgressLine line_;
  double first_ = -1;  ///< the share that was done when this run began
};

/// Shows a sweep: a line for each point that is done, with the predicted time of the others.
class SweepLines {
 public:
  void update(const training::GridProgress& progress);

 private:
  double start_ = 0;
};

}  // namespace crumb::cli

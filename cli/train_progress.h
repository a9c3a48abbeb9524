// How far crumb train is, on stderr.
#pragma once

#include "tasks/train/trainer.h"
#include "training/sweep.h"

namespace crumb::cli {

/// Of one run: a line that changes on a terminal, else one every few seconds.
class TrainLine {
 public:
  TrainLine();
  ~TrainLine();
  TrainLine(const TrainLine&) = delete;
  TrainLine& operator=(const TrainLine&) = delete;

  void update(const tasks::TrainProgress& progress);

 private:
  bool terminal_, shown_ = false;
  double start_, last_, first_ = -1;
};

/// Of a sweep: a line for each point that is done, with the time that the others may take.
class SweepLines {
 public:
  void update(const training::GridProgress& progress);

 private:
  double start_ = 0;
};

}  // namespace crumb::cli

// One cell of a sweep, done: the network is quantized and written, and what it costs and what it gives are
// measured.
#pragma once

#include <filesystem>

#include "eval/grid_table.h"
#include "jobs/network_quantization.h"
#include "jobs/sweep.h"
#include "jobs/sweep/measure.h"

namespace crumb::jobs {

class SweptNetwork {
 public:
  /// What it is given must outlive it.
  SweptNetwork(const SweepRequest& request, const NetworkSource& source, Measure& measure, Observer& observer)
      : request_(request), source_(source), measure_(measure), observer_(observer) {}

  /// Of the float network: its own scores, the bytes of its files.
  eval::GridRow float_row() const;

  /// Written to `file`, which stays where files are kept. What cannot be done is a row that says why; thrown
  /// is what ends the run: an interruption, or a fault of crumb's. One quantized network is in memory at a
  /// time.
  eval::GridRow row(const SweepCell& cell, const std::filesystem::path& file) const;

 private:
  void fill(const SweepCell& cell, const std::filesystem::path& file, eval::GridRow& row) const;

  const SweepRequest& request_;
  const NetworkSource& source_;
  Measure& measure_;
  Observer& observer_;
};

}  // namespace crumb::jobs

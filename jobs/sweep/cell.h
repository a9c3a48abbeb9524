// Computes one cell of a sweep: quantizes the network, writes it, and measures its cost and its outputs.
#pragma once

#include <filesystem>

#include "eval/grid_table.h"
#include "jobs/network_quantization.h"
#include "jobs/sweep.h"
#include "jobs/sweep/measure.h"

namespace crumb::jobs {

class SweptNetwork {
 public:
  /// All arguments must outlive it.
  SweptNetwork(const SweepRequest& request, const NetworkSource& source, Measure& measure, Observer& observer)
      : request_(request), source_(source), measure_(measure), observer_(observer) {}

  /// The float network's row: its own scores, the bytes of its files.
  eval::GridRow float_row() const;

  /// Writes the cell's network to `file`, which stays where files are kept. Returns a row that says why where
  /// the cell fails; throws only what ends the run: an interruption, or a fault in crumb. One quantized
  /// network is in memory at a time.
  eval::GridRow row(const SweepCell& cell, const std::filesystem::path& file) const;

 private:
  void fill(const SweepCell& cell, const std::filesystem::path& file, eval::GridRow& row) const;

  const SweepRequest& request_;
  const NetworkSource& source_;
  Measure& measure_;
  Observer& observer_;
};

}  // namespace crumb::jobs

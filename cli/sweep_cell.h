// One cell of a sweep, done: the network is quantized and written, and what it costs and what it gives are measured.
#pragma once

#include <filesystem>

#include "cli/sweep_grid.h"
#include "cli/sweep_measure.h"
#include "cli/sweep_options.h"
#include "eval/grid_table.h"
#include "jobs/network_quantization.h"

namespace crumb::cli {

class Sweep {
 public:
  /// What it is given must outlive it.
  Sweep(const SweepOptions& options, const jobs::NetworkSource& source, Measure& measure)
      : options_(options), source_(source), measure_(measure) {}

  /// Of the float network: its own scores, the bytes of its files.
  eval::GridRow float_row() const;

  /// Written to `file`, which stays where files are kept. What cannot be done is a row that says why; thrown is what ends the
  /// run: an interruption, or a fault of crumb's. One quantized network is in memory at a time.
  eval::GridRow row(const SweepGridCell& cell, const std::filesystem::path& file) const;

 private:
  void fill(const SweepGridCell& cell, const std::filesystem::path& file, eval::GridRow& row) const;

  const SweepOptions& options_;
  const jobs::NetworkSource& source_;
  Measure& measure_;
};

}  // namespace crumb::cli

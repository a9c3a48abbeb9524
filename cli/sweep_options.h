// What crumb sweep is told, beside how it shows what it finds.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/output.h"
#include "cli/sweep_grid.h"
#include "cli/sweep_measure.h"
#include "jobs/network_quantization.h"

namespace crumb::cli {

struct SweepOptions {
  std::string input;
  SweepGridFlags grid;
  std::vector<std::string> data, shapes;
  std::string device;
  std::size_t tokens = 0;  ///< of a text as data; 0: all
  MeasureWish measure;
  int threads = 0;
  bool keep_files = false;
};

/// What decides the numbers of cells, by flags; of files where they lie, how long they are and when they were written. Not: the
/// metric and what it is against, since every cell has all; threads.
Json command_of(const SweepOptions& options, const jobs::NetworkSource& source,
                const std::vector<SweepGridCell>& cells);

}  // namespace crumb::cli

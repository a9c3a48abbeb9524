// Prints what crumb sweep finds.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "eval/grid_table.h"
#include "jobs/sweep.h"

namespace crumb::cli {

/// Prints rows as they come, in columns as wide as the grid's own words need. Prints the head at once.
class RowLines {
 public:
  RowLines(const std::vector<jobs::SweepCell>& cells, const eval::GridTable& head);

  void print(const eval::GridTable& table, std::size_t row) const;

 private:
  void print(const std::vector<std::string>& cells) const;

  std::vector<std::size_t> widths_;
};

/// Prints all rows, and which are on the Pareto front.
void print_grid(const eval::GridTable& table);

}  // namespace crumb::cli

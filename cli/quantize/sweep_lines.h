// What crumb sweep prints.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "eval/grid_table.h"
#include "jobs/sweep.h"

namespace crumb::cli {

/// Rows on their way, as wide as the grid's own words ask. The head is printed at once.
class RowLines {
 public:
  RowLines(const std::vector<jobs::SweepCell>& cells, const eval::GridTable& head);

  void print(const eval::GridTable& table, std::size_t row) const;

 private:
  void print(const std::vector<std::string>& cells) const;

  std::vector<std::size_t> widths_;
};

/// All of them, and which are on the front.
void print_grid(const eval::GridTable& table);

}  // namespace crumb::cli

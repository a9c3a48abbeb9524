// What a sweep found, as table, JSON, CSV and plot.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "training/references.h"
#include "training/sweep.h"

namespace crumb::training {

/// The seeds of one series at one x.
struct SweepCell {
  std::string series, label;
  double x = 0;
  double mean = 0, least = 0, greatest = 0;
  int seeds = 0;
  std::optional<NetworkCost> cost;  ///< mean
  std::string widths;               ///< "W3A2" where they differ from row to row
};

/// In the order in which the values come.
std::vector<SweepCell> cells_of(const std::vector<SweepValue>& values);

struct SweepTable {
  std::string title, axis, task, network, metric, miniature_of;
  std::vector<TrainReference> references;
  std::vector<SweepCell> cells;
  std::vector<SweepValue> values;
};

/// Of what values_of() gives of the reports, which are those of the grid's points, in their order.
SweepTable table_of(const SweepGrid& grid, const std::vector<Json>& reports);

/// Writes sweep.json, sweep.csv and sweep.svg into a folder that is there.
void write_table(const SweepTable& table, const std::filesystem::path& folder);

/// A row for each x, a column for each series: "0.9749 (0.9721 to 0.9777)", "-" where there is none.
std::vector<std::vector<std::string>> rows_of(const SweepTable& table);
/// Whether its cells say what the networks cost.
bool has_costs(const SweepTable& table);
/// The same rows and columns as rows_of(): "137207 (80.0 %)", BOPs and the share of weights that are zero.
std::vector<std::vector<std::string>> cost_rows_of(const SweepTable& table);
Json json_of(const SweepTable& table);
/// A line for each value: series, place, seed, metric; sparsity and BOPs where networks are said to cost
/// something, and widths where they differ from row to row.
std::string csv_of(const SweepTable& table);
/// A line for each series through its means, a band from its least to its greatest seed, a dashed line for
/// everything that the table is compared with; axes with what they measure. The same table gives the same
/// bytes.
std::string svg_of(const SweepTable& table);

}  // namespace crumb::training

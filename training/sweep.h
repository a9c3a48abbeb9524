// Grids of training runs, and the tables that they make.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/train/trainer.h"
#include "training/json.h"

namespace crumb::training {

/// One run of a grid, and where it stands in the table.
struct SweepPoint {
  std::string name;    ///< of its folder
  std::string series;  ///< of the plot
  std::string label;   ///< along the axis: "12", "e2m1"
  double x = 0;
  tasks::TrainRequest request;
  std::string widths;  ///< "W3A2" where it may stand in the column of narrowed widths (narrowed.h)
};

struct SweepGrid {
  std::string title, axis;
  std::string stands_for;   ///< whose table it is a miniature of; "": that of the task
  bool is_wrapped = false;  ///< points with wrap_bits stand for one point of the table at each width
  std::string note;         ///< what the table has not, and why
  std::vector<SweepPoint> points;
};

/// "accumulator", "bits", "prune-bits", "formats".
std::vector<std::string_view> sweep_names();

/// `base`: what the runs share; its recipe says what the sweep does not vary. Throws usage Error where there
/// is no such sweep.
SweepGrid grid_of(std::string_view sweep, const tasks::TrainRequest& base, int seeds);

/// What executing a network costs, of its report's "pruning".
struct NetworkCost {
  double sparsity = 0;  ///< share of weights that are zero
  double bops = 0;      ///< without multiplications by them
  double bops_dense = 0;
};

/// A number of the table: one point, one seed.
struct SweepValue {
  std::string series, label;
  double x = 0;
  std::uint64_t seed = 0;
  double metric = 0;
  std::optional<NetworkCost> cost;  ///< where the sweep is about it
  std::string widths;               ///< "W3A2" where they differ from row to row
};

/// How far a grid is.
struct GridProgress {
  std::size_t all = 0;                ///< points
  std::size_t there = 0;              ///< of them, with a report before it began
  std::size_t done = 0;               ///< with one now
  const SweepPoint* point = nullptr;  ///< that has just been finished; null before the first
  const Json* report = nullptr;       ///< its own
};

/// Runs what has no report yet, `threads` at once, each in a folder of its own below `folder`/points, and
/// gives the reports in the order of the points. Where every point has a report, nothing is asked for a
/// trainer. `progress` is told before the first point and after each, one call at a time. The first point
/// that throws ends it, when those that run beside it are done.
std::vector<Json> run_grid(const SweepGrid& grid, const std::filesystem::path& folder, int threads,
                           const std::function<tasks::Trainer&()>& open_trainer,
                           const std::function<void(const GridProgress&)>& progress);

std::vector<SweepValue> values_of(const SweepGrid& grid, const std::vector<Json>& reports);

}  // namespace crumb::training

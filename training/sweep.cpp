#include "training/sweep.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "training/narrowed.h"
#include "training/run.h"

namespace crumb::training {
namespace {

constexpr std::string_view kSweeps[] = {"accumulator", "bits", "prune-bits", "formats"};
constexpr int kWidest = 16, kNarrowest = 8;

void add_seeds(const SweepPoint& point, int seeds, std::vector<SweepPoint>& points) {
  for (int seed = 0; seed < seeds; ++seed) {
    SweepPoint one = point;
    one.request.seed = point.request.seed + static_cast<std::uint64_t>(seed);
    one.name += "-seed" + std::to_string(one.request.seed);
    points.push_back(std::move(one));
  }
}

SweepGrid accumulator_grid(const tasks::TrainRequest& base, int seeds) {
  SweepGrid grid{.title = "accumulator width",
                 .axis = "accumulator width (bits)",
                 .stands_for = {},
                 .is_wrapped = true,
                 .points = {}};
  SweepPoint plain{
      .name = "qat", .series = "QAT, wraparound", .label = "", .request = base, .widths = widths_text(base)};
  plain.request.recipe.accumulator.reset();
  for (int bits = kWidest; bits >= kNarrowest; --bits) plain.request.wrap_bits.push_back(bits);
  add_seeds(plain, seeds, grid.points);
  using Method = AccumulatorGoal::Method;
  const std::pair<Method, const char*> methods[] = {{Method::kA2q, "A2Q"}, {Method::kA2qPlus, "A2Q+"}};
  for (const auto& [method, series] : methods) {
    for (int bits = kWidest; bits >= kNarrowest; --bits) {
      SweepPoint point{.name = std::string(name_of(method)) + "-" + std::to_string(bits),
                       .series = series,
                       .label = std::to_string(bits),
                       .x = static_cast<double>(bits),
                       .request = base};
      const int tile = base.recipe.accumulator ? base.recipe.accumulator->tile : 0;
      point.request.recipe.accumulator = {.bits = bits, .method = method, .tile = tile};
      add_seeds(point, seeds, grid.points);
    }
  }
  const std::vector<SweepPoint> narrowed = narrowed_points(base);
  for (const SweepPoint& point : narrowed) add_seeds(point, seeds, grid.points);
  if (narrowed.empty()) {
    grid.note = "no column of narrowed widths: that takes intM weights and integer activations, found " +
                to_string(base.recipe.weights) + " and " + to_string(base.recipe.activations);
  }
  return grid;
}

SweepGrid bits_grid(const tasks::TrainRequest& base, int seeds) {
  SweepGrid grid{.title = "bits of weights and activations", .axis = "bits", .stands_for = {}, .points = {}};
  for (const int bits : {8, 6, 4, 3, 2, 1}) {
    const std::string number = std::to_string(bits);
    SweepPoint point{.name = "w" + number + "a" + number,
                     .series = "QAT",
                     .label = number,
                     .x = static_cast<double>(bits),
                     .request = base};
    Recipe& recipe = point.request.recipe;
    recipe.weights = QuantSpec::parse(bits == 1 ? "binary:channel" : "int" + number + ":channel");
    recipe.activations = QuantSpec::parse_activations("uint" + number + ":tensor");
    add_seeds(point, seeds, grid.points);
  }
  return grid;
}

/// All layers at the same bits, as in arXiv:2102.11289; its input has 32.
SweepGrid prune_bits_grid(const tasks::TrainRequest& base, int seeds) {
  SweepGrid grid{.title = "share of pruned weights, by bits",
                 .axis = "pruned weights (%)",
                 .stands_for = "arXiv:2102.11289, figures 4 to 6",
                 .points = {}};
  for (const int bits : {32, 8, 6, 4, 3, 2}) {
    for (const int percent : {0, 50, 80, 90, 95, 98}) {
      const std::string number = std::to_string(bits), share = std::to_string(percent);
      SweepPoint point{.name = "w" + number + "-pruned" + share,
                       .series = number + " bits",
                       .label = share,
                       .x = static_cast<double>(percent),
                       .request = base};
      point.request.eight_bit_ends = false;
      point.request.float_input = true;
      Recipe& recipe = point.request.recipe;
      recipe.weights = bits == 32 ? SpecOrKeep() : QuantSpec::parse("int" + number + ":channel");
      recipe.activations =
          bits == 32 ? SpecOrKeep() : QuantSpec::parse_activations("uint" + number + ":tensor");
      if (!recipe.prune) recipe.prune.emplace();
      recipe.prune->share = static_cast<double>(percent) / 100;
      (void)parse_prune(to_string(recipe.prune));  // a floor may not go with every share
      add_seeds(point, seeds, grid.points);
    }
  }
  return grid;
}

std::optional<NetworkCost> cost_in(const Json& report) {
  if (!report.contains("pruning")) return std::nullopt;
  const Json& pruning = report.at("pruning");
  return NetworkCost{
      .sparsity = pruning.at("sparsity"), .bops = pruning.at("bops"), .bops_dense = pruning.at("bops_dense")};
}

SweepGrid formats_grid(const tasks::TrainRequest& base, int seeds) {
  SweepGrid grid{
      .title = "formats of weights",
      .axis = "format of the weights",
      .stands_for = "arXiv:2502.02631, 1 to 4 bits, and arXiv:2311.12359, minifloats beside integers",
      .points = {}};
  constexpr const char* kFormats[] = {"int8", "e3m2", "e2m3",    "int4",  "e2m1",
                                      "int3", "int2", "ternary", "int2h", "binary"};
  double x = 0;
  for (const char* format : kFormats) {
    SweepPoint point{.name = format, .series = "QAT", .label = format, .x = x++, .request = base};
    point.request.recipe.weights = QuantSpec::parse(std::string(format) + ":channel");
    add_seeds(point, seeds, grid.points);
  }
  return grid;
}

/// Threads that take points until none is left, or one has failed.
class GridRun {
 public:
  GridRun(const SweepGrid& grid, const std::filesystem::path& folder,
          const std::function<void(const GridProgress&)>& progress)
      : grid_(grid), folder_(folder), progress_(progress), reports_(grid.points.size()) {
    for (std::size_t i = 0; i < grid.points.size(); ++i) {
      reports_[i] = finished_report(grid.points[i].request, folder_of(i));
      if (reports_[i].is_null()) missing_.push_back(i);
    }
  }

  std::vector<Json> run(int threads, const std::function<tasks::Trainer&()>& open_trainer) {
    if (missing_.empty()) return std::move(reports_);
    tasks::Trainer& trainer = open_trainer();  // once, before there are threads
    progress_(progress_now());
    std::vector<std::thread> workers;
    const std::size_t count =
        std::min<std::size_t>(static_cast<std::size_t>(std::max(threads, 1)), missing_.size());
    for (std::size_t i = 0; i < count; ++i) workers.emplace_back([&] { work(trainer); });
    for (std::thread& worker : workers) worker.join();
    if (failure_) std::rethrow_exception(failure_);
    return std::move(reports_);
  }

 private:
  std::filesystem::path folder_of(std::size_t i) const { return folder_ / "points" / grid_.points[i].name; }

  GridProgress progress_now() const {
    const std::size_t all = grid_.points.size(), there = all - missing_.size();
    return {.all = all, .there = there, .done = there + finished_};
  }

  void work(tasks::Trainer& trainer) {
    while (true) {
      std::size_t index = 0;
      {
        const std::lock_guard lock(mutex_);
        if (failure_ || next_ == missing_.size()) return;
        index = missing_[next_++];
      }
      try {
        Json report = train_into({.request = grid_.points[index].request,
                                  .folder = folder_of(index),
                                  .shares_float = true,
                                  .progress = {}},
                                 trainer);
        const std::lock_guard lock(mutex_);
        reports_[index] = std::move(report);
        ++finished_;
        GridProgress now = progress_now();
        now.point = &grid_.points[index];
        now.report = &reports_[index];
        progress_(now);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
      }
    }
  }

  const SweepGrid& grid_;
  std::filesystem::path folder_;
  const std::function<void(const GridProgress&)>& progress_;
  std::vector<Json> reports_;
  std::vector<std::size_t> missing_;
  std::size_t next_ = 0, finished_ = 0;
  std::exception_ptr failure_;
  std::mutex mutex_;
};

}  // namespace

std::vector<std::string_view> sweep_names() { return {std::begin(kSweeps), std::end(kSweeps)}; }

SweepGrid grid_of(std::string_view sweep, const tasks::TrainRequest& base, int seeds) {
  if (sweep == "accumulator") return accumulator_grid(base, seeds);
  if (sweep == "bits") return bits_grid(base, seeds);
  if (sweep == "prune-bits") return prune_bits_grid(base, seeds);
  if (sweep == "formats") return formats_grid(base, seeds);
  throw usage_error("--sweep " + quote_text(sweep) +
                    ": expected accumulator, bits, prune-bits or formats; did you mean '" +
                    nearest_name(sweep, kSweeps) + "'?");
}

std::vector<Json> run_grid(const SweepGrid& grid, const std::filesystem::path& folder, int threads,
                           const std::function<tasks::Trainer&()>& open_trainer,
                           const std::function<void(const GridProgress&)>& progress) {
  return GridRun(grid, folder, progress).run(threads, open_trainer);
}

std::vector<SweepValue> values_of(const SweepGrid& grid, const std::vector<Json>& reports) {
  std::vector<SweepValue> values;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const SweepPoint& point = grid.points[i];
    SweepValue value{.series = point.series, .label = point.label, .x = point.x, .seed = point.request.seed};
    if (!reports[i].contains("wrapped")) {
      if (!point.widths.empty()) continue;  // it stands for itself nowhere
      value.metric = reports[i].at("quantized").get<double>();
      value.cost = cost_in(reports[i]);
      values.push_back(value);
      continue;
    }
    const std::string metric = reports[i].at("metric");
    for (const Json& one : reports[i].at("wrapped")) {
      value.x = one.at("bits").get<double>();
      value.label = std::to_string(one.at("bits").get<int>());
      value.metric = one.at(metric).get<double>();
      values.push_back(value);
    }
  }
  const std::vector<SweepValue> narrowed = narrowed_values(grid, reports, kWidest, kNarrowest);
  values.insert(values.end(), narrowed.begin(), narrowed.end());
  return values;
}

}  // namespace crumb::training

#include "eval/paired/rank_metric.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace crumb::eval {
namespace {

std::vector<std::uint32_t> order_of(const std::vector<double>& values) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) { return values[a] < values[b]; });
  return order;
}

/// Ranks of a data set that has value i times[i] times, less the mean rank. `order`: of the values.
std::vector<double> ranks_of(const std::vector<double>& values, const std::vector<std::uint32_t>& order,
                             std::span<const std::uint32_t> times) {
  std::vector<double> ranks(values.size());
  double all = 0, before = 0;
  for (const std::uint32_t count : times) all += count;
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    double count = 0;
    for (; end < order.size() && values[order[end]] == values[order[begin]]; ++end)
      count += times[order[end]];
    for (std::size_t i = begin; i < end; ++i) ranks[order[i]] = before + (count - all) / 2;
    before += count;
    begin = end;
  }
  return ranks;
}

}  // namespace

class RanksOfTwo final : public PairedMetric {
 public:
  RanksOfTwo(const RankMetric& baseline, const RankMetric& model)
      : baseline_(baseline),
        model_(model),
        of_labels_(order_of(baseline.labels_)),
        of_baseline_(order_of(baseline.figures_)),
        of_model_(order_of(model.figures_)) {}

  std::size_t samples() const override { return baseline_.labels_.size(); }

  double value(std::span<const std::uint32_t> times, std::span<const std::uint8_t> by_model) const override {
    const std::vector<double> labels = ranks_of(baseline_.labels_, of_labels_, times);
    const bool is_baseline = std::ranges::find(by_model, 1) == by_model.end();
    const bool is_model = std::ranges::find(by_model, 0) == by_model.end();
    if (is_baseline) return correlation(labels, ranks_of(baseline_.figures_, of_baseline_, times), times);
    if (is_model) return correlation(labels, ranks_of(model_.figures_, of_model_, times), times);
    std::vector<double> mixed(times.size());
    for (std::size_t i = 0; i < mixed.size(); ++i)
      mixed[i] = (by_model[i] != 0 ? model_ : baseline_).figures_[i];
    return correlation(labels, ranks_of(mixed, order_of(mixed), times), times);
  }

 private:
  static double correlation(const std::vector<double>& a, const std::vector<double>& b,
                            std::span<const std::uint32_t> times) {
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      ab += times[i] * (a[i] * b[i]);
      aa += times[i] * (a[i] * a[i]);
      bb += times[i] * (b[i] * b[i]);
    }
    if (aa == 0 || bb == 0) return std::numeric_limits<double>::quiet_NaN();
    return std::clamp(ab / std::sqrt(aa * bb), -1.0, 1.0);
  }

  const RankMetric& baseline_;
  const RankMetric& model_;
  std::vector<std::uint32_t> of_labels_, of_baseline_, of_model_;
};

void RankMetric::add(double figure, double label) {
  figures_.push_back(figure);
  labels_.push_back(label);
}

std::unique_ptr<PairedMetric> RankMetric::paired_with(const SampleMetric& model) const {
  return std::make_unique<RanksOfTwo>(*this, dynamic_cast<const RankMetric&>(model));
}

}  // namespace crumb::eval

#include "jobs/evaluate/evaluation_parts.h"

#include <algorithm>
#include <numeric>

namespace crumb::jobs {

EvaluateMetric compare_metric(const eval::SampleMetric& baseline, const eval::SampleMetric& model,
                              int threads) {
  return {.name = baseline.name(),
          .figures = eval::compare_paired(*baseline.paired_with(model), {.threads = threads})};
}

std::vector<WorstSample> worst_samples(const eval::SampleMetric* baseline, const eval::SampleMetric* model,
                                       std::span<const double> distance, std::size_t most) {
  std::vector<double> loss(distance.size());
  for (std::size_t i = 0; i < loss.size() && baseline; ++i) {
    const std::optional<double> one = baseline->of_sample(i), other = model->of_sample(i);
    if (!one || !other || *one == *other) continue;
    loss[i] = baseline->name().more_is_better ? *one - *other : *other - *one;
  }
  std::vector<std::size_t> order(distance.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto is_worse = [&](std::size_t a, std::size_t b) {
    if (loss[a] != loss[b]) return loss[a] > loss[b];
    return distance[a] != distance[b] ? distance[a] > distance[b] : a < b;
  };
  const auto count = static_cast<std::ptrdiff_t>(std::min(most, order.size()));
  std::partial_sort(order.begin(), order.begin() + count, order.end(), is_worse);
  std::vector<WorstSample> made;
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const std::size_t sample = order[static_cast<std::size_t>(i)];
    if (!(loss[sample] > 0 || distance[sample] > 0)) break;
    WorstSample& one = made.emplace_back(WorstSample{.sample = sample, .distance = distance[sample]});
    if (!baseline) continue;
    one.baseline = baseline->of_sample(sample);
    one.model = model->of_sample(sample);
  }
  return made;
}

}  // namespace crumb::jobs

// What evaluations of every kind end with.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "eval/paired/sample_metric.h"
#include "jobs/evaluate.h"

namespace crumb::jobs {

EvaluateMetric compare_metric(const eval::SampleMetric& baseline, const eval::SampleMetric& model,
                              int threads);

/// Samples on which the metric got worse, most first; of equal ones those whose outputs are farther apart,
/// then the earlier. Leaves out those on which nothing was lost. `baseline` and `model` may be null;
/// `distance`: of each sample.
std::vector<WorstSample> worst_samples(const eval::SampleMetric* baseline, const eval::SampleMetric* model,
                                       std::span<const double> distance, std::size_t most);

}  // namespace crumb::jobs

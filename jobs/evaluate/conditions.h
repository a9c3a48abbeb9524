// Conditions on the figures of an evaluation.
#pragma once

#include <string>
#include <vector>

#include "jobs/evaluate.h"

namespace crumb::jobs {

/// Throws usage Error where a condition names a metric that this evaluation does not have. `metrics`: the
/// task's; `has_rows`: the labels' output has KL and agreement.
void check_conditions(const std::vector<EvaluateCondition>& conditions,
                      const std::vector<eval::MetricName>& metrics, bool has_rows, const std::string& field);

/// `output`: that figures of outputs are of.
std::vector<ConditionResult> hold(const std::vector<EvaluateCondition>& conditions,
                                  const ModelEvaluation& evaluation, std::size_t output);

}  // namespace crumb::jobs

// Conditions on the figures of an evaluation.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "jobs/evaluate.h"

namespace crumb::jobs {

/// What there is of the output that figures are of.
struct OutputFiguresThere {
  bool are_there = true;  ///< it is compared with the baseline's
  bool have_rows = true;  ///< KL and agreement
};

/// Throws usage Error where a condition names a metric that this evaluation does not have. `metrics`: the
/// task's.
void check_conditions(const std::vector<EvaluateCondition>& conditions,
                      const std::vector<eval::MetricName>& metrics, OutputFiguresThere output,
                      const std::string& field);

/// `output`: that figures of outputs are of; nothing where it was not compared.
std::vector<ConditionResult> hold(const std::vector<EvaluateCondition>& conditions,
                                  const ModelEvaluation& evaluation, std::optional<std::size_t> output);

}  // namespace crumb::jobs

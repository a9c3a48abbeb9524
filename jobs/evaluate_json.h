// Writes an evaluation as JSON: what crumb eval --json prints (docs/evaluation.md).
#pragma once

#include <nlohmann/json.hpp>

#include "jobs/evaluate.h"

namespace crumb::jobs {

/// Rises when a key is removed or changes its meaning.
inline constexpr int kEvaluateSchema = 1;

/// Of one model its own object; of several "models", each with its name.
nlohmann::ordered_json json_of(const EvaluateReport& report);

}  // namespace crumb::jobs

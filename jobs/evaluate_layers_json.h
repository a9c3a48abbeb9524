// The JSON of measured layers, documented in docs/evaluation.md.
#pragma once

#include <nlohmann/json.hpp>

#include "jobs/evaluate_layer.h"

namespace crumb::jobs {

/// "layers", "advice" and "layers_on", as members of an evaluation's object.
nlohmann::ordered_json json_of(const EvaluateLayers& layers);

}  // namespace crumb::jobs

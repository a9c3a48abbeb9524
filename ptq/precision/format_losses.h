// Measures what the formats of a space lose.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/quantize/plan.h"
#include "ptq/precision/format_space.h"
#include "ptq/precision/sensitivity.h"
#include "ptq/stages.h"

namespace crumb::ptq {

struct FormatLosses {
  /// By group, unit, and format of weights; 0 for a format that does not fit, or weights that are not free.
  std::vector<std::vector<std::vector<double>>> weights;
  /// By group, and format of activations: the sum over the group's layers.
  std::vector<std::vector<double>> activations;
};

struct LossRequest {
  Sensitivity sensitivity = Sensitivity::kError;
  Distance distance;       ///< for kKl
  std::size_t probes = 0;  ///< samples, for kKl
};

/// `plans`: one for each format of activations, with everything in it, calibrated. Preconditions: the setting
/// has an engine and samples if activations are chosen or sensitivity is not kError; its plan makes codes of
/// all of the space's weights.
FormatLosses measure_losses(const Setting& setting, const FormatSpace& space,
                            const std::vector<graph::QuantPlan>& plans, const LossRequest& requested);

}  // namespace crumb::ptq

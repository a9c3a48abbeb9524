// What the formats of a space lose, measured.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/quantize/plan.h"
#include "ptq/precision/format_space.h"
#include "ptq/precision/sensitivity.h"
#include "ptq/stages.h"

namespace crumb::ptq {

struct FormatLosses {
  /// By group, unit, and format of weights; 0 of what does not fit, or is not free.
  std::vector<std::vector<std::vector<double>>> weights;
  /// By group, and format of activations: the sum over its layers.
  std::vector<std::vector<double>> activations;
};

struct LossWish {
  Sensitivity sensitivity = Sensitivity::kError;
  Distance distance;       ///< of kKl
  std::size_t probes = 0;  ///< samples, of kKl
};

/// `plans`: for each format of activations everything in it, calibrated. Precondition: the setting has an engine and samples where
/// activations are chosen for, or sensitivity is not kError; its plan makes codes of all of the space's weights.
FormatLosses measure_losses(const Setting& setting, const FormatSpace& space,
                            const std::vector<graph::QuantPlan>& plans, const LossWish& wish);

}  // namespace crumb::ptq

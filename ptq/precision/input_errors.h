// Measures on samples what rounding layers' inputs costs; sensitivity.h does the same for weights.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "graph/quantize/layer_groups.h"
#include "graph/quantize/plan.h"
#include "ptq/precision/sensitivity.h"
#include "ptq/stages.h"

namespace crumb::ptq {

/// By node, for each plan. A plan has one format for all layers' inputs, and calibrated edges.
using InputErrors = std::map<std::size_t, std::vector<double>>;

/// Returns the squared error of each layer's input over its squares; 0 if a plan does not change it.
/// Precondition: the setting has an engine and samples.
InputErrors own_input_errors(const Setting& setting, const std::vector<graph::LayerGroup>& groups,
                             const std::vector<graph::QuantPlan>& plans);

/// Returns the squared error of each layer's outputs over their squares, tr(W E W^T) / tr(W H W^T), E and H
/// being the second moments of the rounding error of its inputs, and of the inputs; for layers that are not
/// sampled (sampled_layers.h) what own_input_errors() returns.
InputErrors output_input_errors(const Setting& setting, const std::vector<graph::LayerGroup>& groups,
                                const std::vector<graph::QuantPlan>& plans);

/// Returns for each group the distance of the results if only its inputs are rounded as the plan says.
std::vector<double> input_distances(const Setting& setting, const std::vector<graph::LayerGroup>& groups,
                                    const graph::QuantPlan& plan, const FloatResults& floats);

}  // namespace crumb::ptq

// What it costs when what layers take in is rounded, measured on samples: beside sensitivity.h, which has the same of weights.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "graph/quantize/layer_groups.h"
#include "graph/quantize/plan.h"
#include "ptq/precision/sensitivity.h"
#include "ptq/stages.h"

namespace crumb::ptq {

/// By node, for each plan. A plan is one format for what all layers take; its edges are calibrated.
using InputErrors = std::map<std::size_t, std::vector<double>>;

/// The squared error of what each layer takes over its squares; 0 where a plan leaves it as it is. Precondition: the setting has an
/// engine and samples.
InputErrors own_input_errors(const Setting& setting, const std::vector<graph::LayerGroup>& groups,
                             const std::vector<graph::QuantPlan>& plans);

/// The squared error of each layer's outputs over their squares, tr(W E W^T) / tr(W H W^T), E and H the second moments of what
/// rounding changes of its inputs, and of these; of layers that are not sampled (sampled_layers.h) the above.
InputErrors output_input_errors(const Setting& setting, const std::vector<graph::LayerGroup>& groups,
                                const std::vector<graph::QuantPlan>& plans);

/// The distance of the results where what a group takes alone is rounded as the plan says, for each group.
std::vector<double> input_distances(const Setting& setting, const std::vector<graph::LayerGroup>& groups,
                                    const graph::QuantPlan& plan, const FloatResults& floats);

}  // namespace crumb::ptq

// crumb quantize --target --sensitivity: what formats cost the network, measured on samples, instead of what they cost each tensor.
#pragma once

#include <string>
#include <vector>

#include "cli/quantize/quantize_graph.h"
#include "graph/graph.h"
#include "ptq/precision/sensitivity.h"
#include "quant/budget/budget.h"
#include "quant/quant_spec.h"

namespace crumb::cli {

/// BudgetRequest::weigh, by what --sensitivity says; of "error" none. hessian: what of a layer's outputs is lost; kl: how far
/// predictions (of encoders and others, results) are from the float network's where the tensor alone is rounded to one
/// of the formats, for others in proportion to the layer's own error. Tensors that are no layers have their
/// squared error over squared norm for that. Throws usage Error where --data is missing or the input is no network.
Weigh weigh_by_sensitivity(const std::string& sensitivity, const std::string& input, const GraphFlags& flags,
                           const std::vector<QuantSpec>& formats, int threads);

/// Samples on which the whole network runs once for each thing that is probed: windows of a text, batches of lines of the same
/// length or of arrays.
std::size_t probes_of(bool is_text);

/// Of a decoder predictions, of others all results.
ptq::Distance distance_for(const graph::Graph& graph);

}  // namespace crumb::cli

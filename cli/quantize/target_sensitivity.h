// crumb quantize --target --sensitivity: measures on samples what formats cost the network, instead of what
// they cost each tensor.
#pragma once

#include <string>
#include <vector>

#include "cli/quantize/quantize_graph.h"
#include "graph/graph.h"
#include "ptq/precision/sensitivity.h"
#include "quant/budget/budget.h"
#include "quant/quant_spec.h"

namespace crumb::cli {

/// Returns BudgetRequest::weigh for the value of --sensitivity; nothing for "error". hessian: the loss in a
/// layer's outputs. kl: how far predictions (for encoders and others: results) are from the float network's
/// where only this tensor is rounded, measured for one of the formats; the other formats' losses are in
/// proportion to the layer's own error. For tensors that are no layers it is their squared error over squared
/// norm. Throws usage Error where --data is missing or the input is no network.
Weigh weigh_by_sensitivity(const std::string& sensitivity, const std::string& input, const GraphFlags& flags,
                           const std::vector<QuantSpec>& formats, int threads);

/// Returns the number of samples on which the whole network runs once for each thing that is probed: windows
/// of a text, batches of lines of the same length or of arrays.
std::size_t probes_of(bool is_text);

/// Returns the distance of predictions for a decoder, of all results for other networks.
ptq::Distance distance_for(const graph::Graph& graph);

}  // namespace crumb::cli

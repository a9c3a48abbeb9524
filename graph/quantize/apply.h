// Applies a plan: constants become codes, edges and biases get quantizers.
#pragma once

#include "graph/quantize/plan.h"

namespace crumb::graph {

struct ApplyOptions {
  int threads = 0;                         ///< 0: as many as the machine has; codes do not depend on it
  std::vector<BiasUse>* biases = nullptr;  ///< if not null, receives one entry for each bias of the plan
};

/// Applies the plan. Constants with a spec become Graph::quantized entries of the same name, with the plan's
/// codes where it has them. An edge gets a quantizer of QONNX (Quant, BipolarQuant, FloatQuant) named after
/// it, whose output replaces the value for all consumers but those that only read its shape; graph outputs
/// stay as they were. A bias becomes a float32 initializer that holds integers times its scale, followed by a
/// Quant; where it exceeds its bits, the scale of its channel's weights grows (bias_room.h). Preconditions:
/// the plan was made for this graph, and every edge has a scale. Throws Error where a constant holds inf or
/// NaN, and where a bias cannot be held: if any number exceeds 32 bits, or, with fewer bits, if a bias keeps
/// less than kLeastOfWeights dB.
Graph apply(Graph graph, const QuantPlan& plan, const ApplyOptions& options = {});

/// Returns the plan's codes for a constant, or those of rounding by its spec. Precondition: it has a spec.
/// Throws Error where the graph has no constant of that name, or it holds inf or NaN.
QuantizedConstant codes_of(const PlannedConstant& constant, const Graph& graph, int threads = 0);

/// Returns the quantizer of an edge, a node without name, data and output; its other inputs are new
/// initializers named after `wish`. It is the last node; if the spec is dynamic, nodes that compute its scale
/// from edge.value precede it.
std::vector<Node> activation_quantizer(Graph& graph, const PlannedEdge& edge, const std::string& requested);

/// A quantized bias: its values and scale. The scale has shape [] if it is one number, else the bias's rank.
/// A channel whose weights are all 0 gets a scale of which its bias is a multiple.
struct BiasValues {
  Tensor values, scale;
  std::uint64_t saturated = 0;  ///< how many numbers exceed the bits
};
BiasValues quantize_bias(const Tensor& bias, const QuantizedConstant& weight, float input_scale, int bits);

}  // namespace crumb::graph

// A plan carried out: constants become codes, edges and biases get quantizers.
#pragma once

#include "graph/quantize/plan.h"

namespace crumb::graph {

struct ApplyOptions {
  int threads = 0;                         ///< 0: those the machine has; never changes a code
  std::vector<BiasUse>* biases = nullptr;  ///< null, or is filled: one for each of the plan's
};

/// Constants with a spec become Graph::quantized entries of the same name, with the codes that the plan has for them. An edge gets a quantizer of QONNX (Quant,
/// BipolarQuant, FloatQuant) named after it, whose output all nodes take but those that ask only for its shape;
/// outputs of the graph stay as they were. A bias becomes a float32 initializer that holds integers times its scale,
/// and a Quant behind it; where it is beyond its bits, the scale of its channel's weights grows (bias_room.h). The plan was made for this graph, and every edge has a scale. Throws Error where a constant
/// holds inf or NaN, and where a bias cannot be held: any number of one in 32 bits, or one of which less than kLeastOfWeights dB
/// would be left in fewer.
Graph apply(Graph graph, const QuantPlan& plan, const ApplyOptions& options = {});

/// The codes that the plan has for a constant, or those of rounding by its spec. Throws Error where the graph has no constant of
/// that name, or it holds inf or NaN. Precondition: it has a spec.
QuantizedConstant codes_of(const PlannedConstant& constant, const Graph& graph, int threads = 0);

/// The quantizer of an edge, a node without a name, data and output; its other inputs are new initializers named after
/// `wish`. It stands last: before it, where the spec is dynamic, nodes that compute its scale from edge.value.
std::vector<Node> activation_quantizer(Graph& graph, const PlannedEdge& edge, const std::string& wish);

/// A bias as it is quantized: (the values, the scale), the scale [] where it is one number, else of the bias's rank.
/// A channel whose weights are all 0 gets a scale that its bias is a multiple of.
struct BiasValues {
  Tensor values, scale;
  std::uint64_t saturated = 0;  ///< numbers beyond the bits
};
BiasValues quantize_bias(const Tensor& bias, const QuantizedConstant& weight, float input_scale, int bits);

}  // namespace crumb::graph

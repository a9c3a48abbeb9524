// Nodes that take a constant of codes as it is packed: what they need of it is decoded for one use and
// dropped, in the backward pass once more, so that a network of so many weights trains what stands beside
// them (QLoRA, Dettmers et al. 2023, arXiv:2305.14314, section 3) in the memory of their codes.
//
// Known are products, MatMul and Gemm with the constant as second input, and rows that are picked, Gather of
// axis 0. Gradients reach what is multiplied, never the constant. Values are those of the float32 constant's
// kernels, products of many outputs up to the order in which the math library adds up.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "libtorch/execute/plan.h"

namespace crumb::libtorch {

/// Nothing where the node takes no constant of codes in such a way. The replacement holds on to the constant,
/// not to the graph, and never looks at the argument in its place.
std::optional<Plan::Replacement> packed_kernel(const graph::Graph& graph, const graph::Node& node);

/// Constants of codes that every node that takes them takes so; none that is an output.
std::set<std::string> packed_constants(const graph::Graph& graph);

}  // namespace crumb::libtorch

// The multiplications of each operator. Internal to analysis/cost.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::analysis {

/// Which axes of a weight a result sums over: `shape` has as many elements as the weight, its axes split
/// where groups need it.
struct WeightAxes {
  std::vector<std::int64_t> shape;
  std::vector<bool> summed;
};

/// Of input `weight_at` (0 or 1) of MatMul, Gemm, Conv, ConvTranspose and the channels-last Conv; nothing for
/// other nodes, and where that input cannot be the weight. Throws Error where the shape is none that the node
/// takes.
std::optional<WeightAxes> weight_axes(const graph::Node& node, std::span<const std::int64_t> weight,
                                      std::size_t weight_at);

/// One multiplication of two operands within a node.
struct Product {
  double macs = 0;
  double length = 0;          ///< products that one result sums up
  std::string input, weight;  ///< values
  std::vector<std::int64_t>
      weight_shape;          ///< as many elements as the weight, its axes split where groups need it
  std::vector<bool> summed;  ///< which of these axes a result sums over; empty where that is not so simple
};

/// None for operators that do not multiply; nothing for those that do and are not known here.
std::optional<std::vector<Product>> products_of(const graph::Graph& graph, const graph::Node& node,
                                                bool first_is_constant);

/// Throws Error where the shape of an input or output is not known.
std::vector<std::int64_t> shape_of(const graph::Graph& graph, const graph::Node& node,
                                   const std::string& value);

}  // namespace crumb::analysis

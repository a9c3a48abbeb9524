// A node's product of data and a weight: which axes of the weight are outputs and inputs, for whoever rewrites
// weights or puts scales on them. The operators are those of the table that a recipe quantizes
// (trait::kMultiplies) with two operands of known axes: MatMul, Gemm, Conv and ConvTranspose. Einsum's axes
// depend on its equation (graph/quantize/operators.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "graph/graph.h"
#include "graph/operator_traits.h"

namespace crumb::graph {

/// Axes are those of the weight as the node takes it: of a convolution [out, in / groups, kernel...], of a
/// transposed one [in, out / groups, kernel...], of a matrix product [batch..., in, out] or [batch..., out, in].
struct WeightedProduct {
  Terms terms = Terms::kMatrix;      ///< kMatrix, kConvolution or kTransposed
  std::size_t data = 0, weight = 1;  ///< inputs of the node
  std::size_t output_axis = 0;       ///< results differ along it
  std::size_t input_axis = 0;        ///< the data's channels meet it
  std::size_t bias = kNoInput;       ///< input that the operator adds; the node may lack it
  std::int64_t groups = 1;           ///< of a convolution
  bool transposes_data = false;      ///< Gemm's transA, or its transB where the weight stands in front
  bool is_scaled = false;            ///< Gemm's alpha or beta is not 1

  bool is_convolution() const { return terms != Terms::kMatrix; }
  /// Whether a matrix lies [out, in].
  bool is_transposed() const { return output_axis < input_axis; }

  /// Channels of the data and of the result; `weight` is the weight's shape, which has both axes.
  std::int64_t inputs(std::span<const std::int64_t> weight_shape) const {
    return weight_shape[input_axis] * (terms == Terms::kConvolution ? groups : 1);
  }
  std::int64_t outputs(std::span<const std::int64_t> weight_shape) const {
    return weight_shape[output_axis] * (terms == Terms::kTransposed ? groups : 1);
  }
};

/// The product whose weight is the node's input `weight` (1, or 0 where it stands in front), of `rank` axes: a
/// Gemm's has two, a MatMul's one or more (of one, the vector is both axes). Nothing where the operator is none
/// of these, or a convolution would have its weight in front.
std::optional<WeightedProduct> weighted_product(const Node& node, std::size_t rank, std::size_t weight = 1);

/// Whether the node's operator is a matrix product, or a convolution, whatever its inputs are.
bool is_matrix_product(const Node& node);
bool is_convolution(const Node& node);

}  // namespace crumb::graph

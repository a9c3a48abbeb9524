// A node's product of data and a weight: which axes of the weight are outputs and inputs, for code that
// rewrites weights or scales them. Covers the operators that a recipe quantizes (trait::kMultiplies) with two
// operands of known axes: MatMul, Gemm, Conv and ConvTranspose. Einsum's axes depend on its equation
// (graph/quantize/operators.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "graph/graph.h"
#include "graph/operator_traits.h"

namespace crumb::graph {

/// Axes are those of the weight as the node takes it: [out, in / groups, kernel...] in a convolution, [in,
/// out / groups, kernel...] in a transposed one, [batch..., in, out] or [batch..., out, in] in a matrix
/// product.
struct WeightedProduct {
  Terms terms = Terms::kMatrix;      ///< kMatrix, kConvolution or kTransposed
  std::size_t data = 0, weight = 1;  ///< indices of the node's inputs
  std::size_t output_axis = 0;       ///< the axis of the results
  std::size_t input_axis = 0;        ///< the axis that is summed with the data's channels
  std::size_t bias = kNoInput;       ///< input that the operator adds; the node may leave it out
  std::int64_t groups = 1;           ///< of a convolution
  bool transposes_data = false;      ///< Gemm's transA, or its transB where the weight is input 0
  bool is_scaled = false;            ///< Gemm's alpha or beta is not 1

  bool is_convolution() const { return terms != Terms::kMatrix; }
  /// Whether a matrix is stored as [out, in].
  bool is_transposed() const { return output_axis < input_axis; }

  /// Returns the channels of the data and of the result. `weight_shape` has both axes.
  std::int64_t inputs(std::span<const std::int64_t> weight_shape) const {
    return weight_shape[input_axis] * (terms == Terms::kConvolution ? groups : 1);
  }
  std::int64_t outputs(std::span<const std::int64_t> weight_shape) const {
    return weight_shape[output_axis] * (terms == Terms::kTransposed ? groups : 1);
  }
};

/// Returns the product whose weight is the node's input `weight` (1, or 0 where it is the left operand), with
/// `rank` axes: a Gemm's has two, a MatMul's one or more (a vector's one axis is both). Nothing where the
/// operator is none of these, or is a convolution and `weight` is 0.
std::optional<WeightedProduct> weighted_product(const Node& node, std::size_t rank, std::size_t weight = 1);

/// Whether the node's operator is a matrix product, or a convolution, whatever its inputs are.
bool is_matrix_product(const Node& node);
bool is_convolution(const Node& node);

}  // namespace crumb::graph

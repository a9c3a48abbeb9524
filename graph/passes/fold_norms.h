// Folds the gains of norms into the matrices behind them: which can be folded, and how (fold_norms of
// passes.h).
//
//   (norm(x) g + b) W + c  =  norm(x) (diag(g) W) + (b W + c)
//
// A norm is a RMSNormalization, or a LayerNormalization with or without a bias b, whose gain is a constant
// with one number for each element of the last axis, or such a constant plus one number (Gemma's 1 + w). It
// folds if every consumer of its output multiplies it by constant matrices without other consumers: MatMul
// and Gemm, directly or behind Identity, a Reshape or a Gather that keeps the last axis. Shape and Size may
// read the output, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/passes/passes.h"

namespace crumb::graph {

/// A constant into which a gain is multiplied.
struct NormMatrix {
  std::string name;
  std::size_t axis = 0;               ///< the axis that the gain scales
  std::vector<std::size_t> products;  ///< nodes that multiply by the constant
};

struct NormFold {
  std::string norm;         ///< the node's name
  std::size_t node = 0;     ///< the node's index in the graph
  std::string gain;         ///< the constant with the gain
  std::size_t gain_at = 0;  ///< the node that takes it: the norm, or the Add before it
  float base = 0;           ///< added to the constant: gain = base + constant
  std::vector<NormMatrix> matrices;
  std::string stays;  ///< why the norm does not fold; empty if it does
};

/// kStay: constants that are kept as codes are not matrices that can change. kDeclared: they stand for
/// tensors whose values are elsewhere.
enum class CodedConstants : std::uint8_t { kStay, kDeclared };

/// Returns one plan for each norm, in the order of the nodes, without reading weights. Precondition: shapes
/// are inferred.
std::vector<NormFold> plan_norm_folds(const Graph& graph, CodedConstants coded = CodedConstants::kStay);

/// Does fold_norms of passes.h for the wanted norms alone.
Graph fold_norms_where(Graph graph, const std::function<bool(const NormFold&)>& is_wanted,
                       std::vector<PassRemark>* remarks = nullptr);

PassRemark remark_of(const NormFold& fold);

/// Returns the norm's factors: base + constant, in float32.
std::vector<float> gains_of(const NormFold& fold, const std::vector<float>& constant);

/// Returns the constant that makes every factor of a norm 1.
float constant_of_ones(const NormFold& fold);

/// Whether the product of two float32 numbers neither overflows nor is below the normal numbers.
bool holds_product(float a, float b);

}  // namespace crumb::graph

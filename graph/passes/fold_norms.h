// Gains of norms in the matrices behind them: which can go there, and going there (fold_norms of passes.h).
//
//   (norm(x) g + b) W + c  =  norm(x) (diag(g) W) + (b W + c)
//
// A norm is a RMSNormalization, or a LayerNormalization with a bias b or without, whose gain is a constant of one number
// for each element of the last axis, or such a constant added to one number (Gemma's 1 + w). It folds where all who take
// its output multiply it by constant matrices that nobody else takes: MatMul and Gemm, straight or behind Identity, a
// Reshape or a Gather that keeps the last axis. Shape and Size may look at it, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/passes/passes.h"

namespace crumb::graph {

/// A constant that takes gains.
struct NormMatrix {
  std::string name;
  std::size_t axis = 0;               ///< along which it does
  std::vector<std::size_t> products;  ///< the nodes that multiply by it
};

struct NormFold {
  std::string norm;         ///< the node's name
  std::size_t node = 0;     ///< where it is in the graph
  std::string gain;         ///< the constant
  std::size_t gain_at = 0;  ///< the node that takes it: the norm, or the addition before it
  float base = 0;           ///< what is added to the constant: gain = base + constant
  std::vector<NormMatrix> matrices;
  std::string stays;  ///< why it does not fold; empty where it does
};

/// Constants that are kept as codes are no matrices, or stand for tensors whose values are elsewhere.
enum class CodedConstants : std::uint8_t { kStay, kDeclared };

/// One for each norm, in the order of the nodes. No values of weights are looked at. Precondition: shapes are inferred.
std::vector<NormFold> plan_norm_folds(const Graph& graph, CodedConstants coded = CodedConstants::kStay);

/// fold_norms of passes.h, of those norms alone.
Graph fold_norms_where(Graph graph, const std::function<bool(const NormFold&)>& is_wanted,
                       std::vector<PassRemark>* remarks = nullptr);

PassRemark remark_of(const NormFold& fold);

/// The numbers that a norm multiplies by: base + constant, as float32 arithmetic has it.
std::vector<float> gains_of(const NormFold& fold, const std::vector<float>& constant);

/// The constant of a norm that multiplies by ones.
float constant_of_ones(const NormFold& fold);

/// Whether float32 holds a product of two float32 numbers but for its rounding: it neither overflows nor comes below the
/// normal numbers.
bool holds_product(float a, float b);

}  // namespace crumb::graph

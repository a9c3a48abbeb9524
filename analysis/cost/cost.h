// What a network costs: multiplications, bit operations, bits of weights and results, accumulators. From
// shapes and weights alone; nothing is executed.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/datatypes.h"
#include "graph/graph.h"

namespace crumb::analysis {

/// One layer's bounds on the width of a signed accumulator, from the least to the most that is known. Of
/// minifloats it is a fixed-point register, whose last bit is worth the product of both smallest subnormals:
/// every sum is exact there.
struct AccumulatorBounds {
  int by_types = 0;               ///< by length, width of the inputs and width of the weights
  std::optional<int> by_weights;  ///< by the largest l1 norm of an output's weights
  std::optional<graph::DataType>
      exact;             ///< by the weights' signs and the inputs' range: the least type of every sum
  bool assumed = false;  ///< rests on what is said of the graph's inputs
};

struct Amounts {
  double macs = 0;
  /// Multiplications times the bits of both operands, by qonnx's rules: what its InferDataTypes does not see
  /// through counts 32 bits.
  double bops_qonnx = 0;
  /// macs * [(1 - pruned) * a * w + a + w + log2(length)], with the bits that inputs (a) and weights (w) have
  /// ("Ps and Qs", arXiv:2102.11289, eq. 8).
  double bops_qap = 0;
  double weight_bits = 0;      ///< of constant operands
  double activation_bits = 0;  ///< of the results, 32 a number unless their type says otherwise

  Amounts& operator+=(const Amounts& other);
};

struct NodeCost {
  std::string name, op;
  std::string made;                       ///< its first output
  graph::DataType input, weight, output;  ///< exact types
  double weights = 0;                     ///< elements of constant operands
  double density = 1;                     ///< part of them that is not zero
  double length = 0;                      ///< products that one result sums up
  Amounts dense;
  Amounts sparse;  ///< multiplications by weights that are zero, and these weights, left out
  std::optional<AccumulatorBounds>
      accumulator;  ///< where inputs and weights are whole numbers, or minifloats, times one scale
};

struct GraphCost {
  std::vector<NodeCost> nodes;  ///< those that multiply, in order
  Amounts dense, sparse;
  std::set<std::string> not_counted;  ///< operators whose work is more than none, and not known here
};

/// The graph's shapes are static (bind_shapes). Exact types and accumulators follow from the graph's inputs;
/// of types and shapes that the file states inside, multiplications and results take the shapes that do not
/// follow, and `bops_qonnx` what qonnx believes. Throws Error, which names node and value, where a shape that
/// counts is not known.
GraphCost cost_of(const graph::Graph& graph);

}  // namespace crumb::analysis

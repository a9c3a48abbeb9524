// What a drawing of a graph shows: boxes of operators, and wires between them.
//
// Constants are lines in the boxes that use them, quantizers are labels on wires, and operators that follow
// each other without a branch share a box. Arithmetic on shapes is left out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::analysis {

struct QuantizerLabel {
  std::string text;  ///< "Quant int2", "BipolarQuant bipolar", "QDQ uint8"
  int bits = 0;      ///< 0: not known
  bool is_float = false;
  bool operator==(const QuantizerLabel&) const = default;
};

/// One operator of a box.
struct Step {
  std::string op;
  std::string name;                     ///< of the node; in an input or output its value's
  std::vector<std::string> parameters;  ///< "[64, 784] Quant int2"
  std::string shape;                    ///< of its first output, where that is another than its input's
  bool multiplies = false;              ///< and adds up: a layer
};

struct Box {
  enum class Kind { kInput, kOutput, kOperators };
  Kind kind = Kind::kOperators;
  std::vector<Step> steps;
  std::size_t left_out = 0;  ///< steps between `kHead` first and `kTail` last ones that are not in `steps`

  static constexpr std::size_t kHead = 5, kTail = 4;
};

/// A value on its way from one box to others, as it leaves its quantizers.
struct Wire {
  std::size_t from = 0;
  std::vector<std::size_t> to;  ///< ascending, each behind `from`; a box once for each of its inputs
  std::string shape;
  std::vector<QuantizerLabel> quantizers;
};

struct Picture {
  std::vector<Box> boxes;  ///< every wire leads to a later one
  std::vector<Wire> wires;
};

/// The graph is sorted, shapes are inferred where they can be.
Picture picture_of(const graph::Graph& graph);

}  // namespace crumb::analysis

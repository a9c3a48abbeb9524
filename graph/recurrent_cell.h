// Which part of an unrolled recurrent layer a node is (passes/unroll_recurrent.cpp), stored in the node's
// metadata.
//
// Nodes of one layer, direction and part do the same in every step. Quantizers give them one scale, and
// quantize the tensors inside a cell as FINN-L does (arXiv:1807.04093).
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace crumb::graph {

inline constexpr const char* kCellKey = "crumb.cell";

struct CellPart {
  std::string cell;  ///< layer and direction: "lstm", "lstm_reverse"
  /// "sum": the inputs of sigmoid and tanh. "gates": splits the sum. "share": splits a GRU's products of its
  /// hidden state. "gate_i", "gate_r", ...: the sigmoid or tanh of one gate. "product": a product with
  /// weights or with a gate. "state": the cell's memory. "squashed": its tanh. "hidden": the cell's output.
  /// "change": the step from a GRU's last output to its new one.
  std::string part;
};

inline void set_cell_part(Node& node, const CellPart& part) {
  node.metadata[kCellKey] = part.cell + "/" + part.part;
}

inline std::optional<CellPart> cell_part(const Node& node) {
  const auto found = node.metadata.find(kCellKey);
  if (found == node.metadata.end()) return std::nullopt;
  const std::size_t slash = found->second.rfind('/');
  if (slash == std::string::npos) return std::nullopt;
  return CellPart{.cell = found->second.substr(0, slash), .part = found->second.substr(slash + 1)};
}

}  // namespace crumb::graph

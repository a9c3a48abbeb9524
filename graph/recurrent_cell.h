// Which part of an unrolled recurrent layer a node is (passes/unroll_recurrent.cpp), kept in its metadata.
//
// What tells: nodes of one layer, direction and part do the same in every step. Quantizers give them one scale, and the
// tensors inside of a cell are quantized as FINN-L does it (arXiv:1807.04093).
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace crumb::graph {

inline constexpr const char* kCellKey = "crumb.cell";

struct CellPart {
  std::string cell;  ///< layer and direction: "lstm", "lstm_reverse"
  /// "sum": before sigmoid and tanh. "gates": splits that. "share": splits a GRU's products of its hidden state.
  /// "gate_i", "gate_r", ...: what sigmoid or tanh makes of one. "product": of weights, or of a gate. "state": what the
  /// cell remembers. "squashed": its tanh. "hidden": what it gives. "change": from a GRU's last output to its new one.
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

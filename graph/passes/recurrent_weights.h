// The weights of an LSTM, GRU or RNN node in the layout of its cells: one matrix for each direction, gates in
// PyTorch's order (LSTM i f g o, GRU r z n). Internal to graph/passes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// Returns ONNX's index of each gate in PyTorch's order: ONNX has LSTM i o f c, GRU z r h. Empty for other
/// operators.
std::vector<std::size_t> gate_places(const Node& node);

struct DirectionWeights {
  std::string input, hidden;            ///< [gates * units, inputs or units]
  std::string input_bias, hidden_bias;  ///< [gates * units]; "" where the node has none
};

/// Returns float32 initializers. If Split, Concat and Unsqueeze bring captured parameters into ONNX's order,
/// they are those parameters; else new ones, named after `base` as PyTorch does ("lstm.weight_ih",
/// "..._reverse"). Nothing, with the graph unchanged, where W, R or B are computed in another way.
std::optional<std::vector<DirectionWeights>> direction_weights(Graph& graph, const Node& node,
                                                               const std::string& base);

}  // namespace crumb::graph

// The weights of an LSTM, GRU or RNN node as its cells take them: a matrix for each direction, gates in the order that
// PyTorch has them (LSTM i f g o, GRU r z n). Internal to graph/passes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// Where ONNX has each gate of PyTorch's order: LSTM i o f c, GRU z r h. Empty for other operators.
std::vector<std::size_t> gate_places(const Node& node);

struct DirectionWeights {
  std::string input, hidden;            ///< [gates * units, inputs or units]
  std::string input_bias, hidden_bias;  ///< [gates * units]; "" where the node has none
};

/// Initializers, float32. Where captured parameters were brought into ONNX's order by Split, Concat and Unsqueeze, those
/// parameters themselves; else new ones, named after `base` as PyTorch would ("lstm.weight_ih", "..._reverse").
/// Nothing, and the graph unchanged, where W, R or B are computed in another way.
std::optional<std::vector<DirectionWeights>> direction_weights(Graph& graph, const Node& node,
                                                               const std::string& base);

}  // namespace crumb::graph

// A network as its layers: nodes that multiply by constant weights, and tables from which rows are taken.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/quantize/operators.h"

namespace crumb::jobs {

/// A weight of a layer.
struct LayerWeight {
  graph::WeightInput at;  ///< the node's input
  std::string value;      ///< which it is
  /// Names by which it is known: the value's own, and those in front of its quantizer and moves, down to the
  /// initializer.
  std::vector<std::string> names;
};

struct NetworkLayer {
  std::size_t node = 0;
  std::vector<LayerWeight> weights;  ///< one; of recurrent layers two
  std::optional<std::size_t> data;   ///< the input that is multiplied; nothing for tables
};

class LayeredNetwork {
 public:
  /// Quantizers of whatever form become QONNX's, those of constants codes, other floats float32; every node
  /// gets a name. Throws Error where a file's quantizers have no such form (export/qcdq/from_qcdq.h).
  explicit LayeredNetwork(graph::Graph graph);

  const graph::Graph& graph() const { return graph_; }
  const graph::Links& links() const { return links_; }
  const graph::Constants& constants() const { return constants_; }
  const std::vector<NetworkLayer>& layers() const { return layers_; }  ///< in the graph's order
  const graph::Node& node(const NetworkLayer& layer) const { return graph_.nodes[layer.node]; }

  /// Whether the value is a constant that a quantizer made.
  bool is_quantized(const std::string& constant) const;
  /// The values of a constant, float32, decoded or computed anew at every call. Nothing where they cannot be
  /// computed.
  std::optional<graph::Tensor> values_of(const std::string& constant) const;
  /// Indices of the quantizers through which a value comes: in front of nodes that only move elements, and of
  /// all inputs of a Concat. Empty where there are none.
  std::vector<std::size_t> quantizers_before(const std::string& value) const;

 private:
  void find_layers(const graph::Graph& before);

  graph::Graph graph_;
  graph::Links links_;
  graph::Constants constants_;
  std::vector<NetworkLayer> layers_;
};

/// "int4:channel" of a constant kept as codes, without how its scales were found; "quantized" of another
/// that a quantizer made, "float32" else.
std::string format_of_constant(const LayeredNetwork& network, const std::string& constant);

/// "uint8", "int8:channel" (a scale for each index of an axis), "int8:token" (computed from the values),
/// "binary", "e4m3".
std::string format_of_quantizer(const LayeredNetwork& network, const graph::Node& quantizer);

}  // namespace crumb::jobs

// What a graph says before anything runs: its constants, its weights, its quantizers.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "graph/graph.h"
#include "runtime/lower/chain.h"
#include "runtime/lower/constants.h"
#include "runtime/lower/weights.h"

namespace crumb::runtime {

/// The type of a quantizer's codes; kUnknown where eight bits do not hold them.
graph::ElementType type_of(const UniformQuantizer& quantizer);

/// The quantizer whose codes are clipped to the range.
UniformQuantizer narrowed(UniformQuantizer quantizer, const CodeRange& range);

/// Of one graph, which must outlive it. By one thread at a time.
class Known {
 public:
  explicit Known(const graph::Graph& graph) : graph_(graph), links_(graph) {}

  const graph::Graph& graph() const { return graph_; }
  const graph::Links& links() const { return links_; }

  /// An initializer, or what computed_constant() makes of initializers and Constant nodes, or null. `nodes`:
  /// so many may stand one behind the other.
  const graph::Tensor* constant(const std::string& value, int nodes = 2) const;
  /// A constant input of one element.
  std::optional<double> number(const graph::Node& node, std::size_t i) const;
  /// The only node that takes a value, and takes it once; none where the value is an output of the graph.
  std::optional<std::size_t> only_consumer(const std::string& value) const;

  /// Whether a value is a constant that is kept as codes, here or by a DequantizeLinear of constants.
  bool is_coded_weight(const std::string& value) const;
  /// Preconditions: is_coded_weight().
  std::vector<std::int64_t> weight_shape(const std::string& value) const;
  Result<IntegerWeight> weight_of(const std::string& value, std::size_t output_axis) const;

  /// QONNX's quantizers with one scale, of up to eight bits, to the nearest.
  std::optional<UniformQuantizer> quantizer_of(const graph::Node& node) const;
  /// Of a QuantizeLinear or DequantizeLinear of eight bits with one scale. `type`: of its codes, where that
  /// is known.
  std::optional<UniformQuantizer> linear_quantizer(const graph::Node& node, graph::ElementType type) const;
  /// The Clip that alone takes these codes, by constants, with its range; nothing where there is none.
  struct ClipNode {
    std::size_t node = 0;
    CodeRange range;
  };
  std::optional<ClipNode> clip_of_codes(const std::string& codes) const;
  /// Codes that the file itself computes with: integers of eight bits, with one scale.
  std::optional<UniformQuantizer> dequantizer_of(const graph::Node& node) const;

 private:
  const graph::Node* dequantized(const std::string& value) const;
  std::optional<std::int32_t> integer(const graph::Node& node, std::size_t i) const;
  graph::ElementType type_of_value(const std::string& value) const;

  const graph::Graph& graph_;
  const graph::Links links_;
  mutable std::map<std::string, graph::Tensor> computed_;
};

}  // namespace crumb::runtime

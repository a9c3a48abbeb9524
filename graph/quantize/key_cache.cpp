#include "graph/quantize/key_cache.h"

#include <array>

#include "base/files/text.h"
#include "graph/edit.h"
#include "graph/quantize/apply.h"

namespace crumb::graph {
namespace {

constexpr std::size_t kKey = 1, kValue = 2, kPastKey = 4, kPastValue = 5, kPresentKey = 1, kPresentValue = 2;

bool keeps_cache(const Node& node) {
  return node.is("Attention") && node.has_input(kPastKey) && node.has_input(kPastValue) &&
         node.has_output(kPresentKey) && node.has_output(kPresentValue);
}

/// Of what an Attention node keeps, whose shape is [batch, heads, places, size].
std::int64_t head_size(const Graph& graph, const Node& node, std::size_t past) {
  for (const std::string& value : {node.inputs[past], node.outputs[past - kPastKey + kPresentKey]}) {
    const auto shape = graph.shape_of(value);
    if (shape && shape->size() == 4 && shape->back().known() && shape->back().size > 0)
      return shape->back().size;
  }
  throw Error(text_of(node) + ": nothing says how large its heads are");
}

class Inserter {
 public:
  Inserter(Graph& graph, const QuantSpec& spec) : graph_(graph), links_(graph), spec_(spec) {}

  /// Nodes that make input `input` of the node from what it was, and the input itself.
  std::vector<Node> insert(Node& node, std::size_t input, std::size_t past) {
    const std::string from = node.inputs[input];
    refuse_quantized(node, from);
    const auto rank = graph_.rank_of(from);
    if (!rank || (*rank != 3 && *rank != 4))
      throw Error(text_of(node) + ": expected keys and values of 3 or 4 axes, found " + quote_text(from) +
                  (rank ? " of " + std::to_string(*rank) : " of nobody knows how many"));
    const std::int64_t size = head_size(graph_, node, past);
    const std::int64_t group = spec_.block_cols > 0 ? static_cast<std::int64_t>(spec_.block_cols) : size;
    if (size % group != 0)
      throw Error(text_of(node) + ": groups of " + std::to_string(group) + " do not divide its heads of " +
                      std::to_string(size),
                  ErrorKind::kUsage);
    nodes_.clear();
    const bool by_head = *rank == 4;
    const std::string split = by_head ? reshaped(from, "_groups", {0, 0, 0, size / group, group})
                                      : reshaped(from, "_groups", {0, 0, -1, group});
    const std::string quantized = quantizer(split, from);
    node.inputs[input] =
        by_head ? reshaped(quantized, "_codes", {0, 0, 0, size}) : reshaped(quantized, "_codes", {0, 0, -1});
    graph_.values[node.inputs[input]] = *graph_.find(from);
    return std::move(nodes_);
  }

 private:
  void refuse_quantized(const Node& node, const std::string& value) const {
    std::size_t at = links_.producer(value);
    while (at != Links::kNone && graph_.nodes[at].is("Reshape"))
      at = links_.producer(graph_.nodes[at].inputs[0]);
    if (at != Links::kNone && is_quantizer(graph_.nodes[at]))
      throw Error(text_of(node) + ": its cache is quantized already, by " + text_of(graph_.nodes[at]),
                  ErrorKind::kUsage);
  }

  std::string reshaped(const std::string& from, const char* what, const std::vector<std::int64_t>& shape) {
    const std::string sizes = add_constant(graph_, from + what + "_shape",
                                           Tensor::ints({static_cast<std::int64_t>(shape.size())}, shape));
    Shape known;
    for (const std::int64_t size : shape) known.push_back(size > 0 ? Dim(size) : Dim());
    const std::string made =
        add_value(graph_, from + what, {.type = ElementType::kFloat, .shape = known, .annotations = {}});
    nodes_.push_back({.name = graph_.unused_node_name(made),
                      .op = "Reshape",
                      .version = graph_.opset(),
                      .inputs = {from, sizes},
                      .outputs = {made}});
    return made;
  }

  std::string quantizer(const std::string& split, const std::string& wish) {
    PlannedEdge edge{.value = split, .spec = spec_};
    edge.spec.granularity = Granularity::kToken;
    std::vector<Node> made = activation_quantizer(graph_, edge, split);
    made.back().inputs[0] = split;
    made.back().outputs = {add_value(graph_, wish + "_quantized", *graph_.find(split))};
    made.back().name = graph_.unused_node_name(wish + "_quant");
    std::ranges::move(made, std::back_inserter(nodes_));
    return nodes_.back().outputs[0];
  }

  Graph& graph_;
  const Links links_;
  const QuantSpec& spec_;
  std::vector<Node> nodes_;
};

}  // namespace

Graph with_quantized_cache(Graph graph, const QuantSpec& spec) {
  Inserter inserter(graph, spec);
  std::vector<Node> nodes;
  bool found = false;
  for (Node node : graph.nodes) {
    if (keeps_cache(node)) {
      found = true;
      for (const auto& [input, past] : {std::pair(kKey, kPastKey), std::pair(kValue, kPastValue)})
        std::ranges::move(inserter.insert(node, input, past), std::back_inserter(nodes));
    }
    nodes.push_back(std::move(node));
  }
  if (!found) throw Error("the graph has no attention that keeps keys and values", ErrorKind::kUsage);
  graph.nodes = std::move(nodes);
  return graph;
}

}  // namespace crumb::graph

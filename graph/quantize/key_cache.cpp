#include "graph/quantize/key_cache.h"

#include <bit>
#include <cmath>
#include <map>

#include "base/files/text.h"
#include "graph/attention_caches.h"
#include "graph/edit.h"
#include "graph/quantize/apply.h"

namespace crumb::graph {
namespace {

using In = AttentionInput;
using Out = AttentionOutput;

/// Returns the head size of a cached value of an Attention node, of shape [batch, heads, positions, size].
std::int64_t head_size(const Graph& graph, const Node& node, std::size_t past) {
  for (const std::string& value : {node.inputs[past], node.outputs[past - In::kPastKey + Out::kPresentKey]}) {
    const auto shape = graph.shape_of(value);
    if (shape && shape->size() == 4 && shape->back().known() && shape->back().size > 0)
      return shape->back().size;
  }
  throw Error(text_of(node) + ": nothing says how large its heads are");
}

/// Returns the matrix, row-major, of a size that is a power of two: the sign is the parity of the bits that
/// row and column share.
Tensor hadamard(std::int64_t size) {
  std::vector<float> values;
  const auto entry = static_cast<float>(1 / std::sqrt(static_cast<double>(size)));
  for (std::int64_t row = 0; row < size; ++row)
    for (std::int64_t column = 0; column < size; ++column)
      values.push_back(std::popcount(static_cast<std::uint64_t>(row & column)) % 2 == 0 ? entry : -entry);
  return Tensor::floats({size, size}, std::move(values));
}

class Inserter {
 public:
  Inserter(Graph& graph, const QuantSpec& spec) : graph_(graph), links_(graph), spec_(spec) {}

  /// Returns a node that attends over what `keeper` keeps, or `keeper` itself, with the nodes that rotate
  /// heads around it and, where it has a past, with quantizers in front of its keys and values, in order.
  /// Nodes that were made for an earlier one serve this one, too.
  std::vector<Node> around(Node node, const Node& keeper) {
    nodes_.clear();
    const std::int64_t key_size = head_size(graph_, keeper, In::kPastKey),
                       value_size = head_size(graph_, keeper, In::kPastValue);
    if (spec_.rotate) node.inputs[In::kQuery] = rotated(node, In::kQuery, key_size);
    if (node.has_input(In::kPastKey)) {
      quantize(node, In::kKey, key_size, keeper.inputs[In::kPastKey]);
      quantize(node, In::kValue, value_size, keeper.inputs[In::kPastValue]);
    }
    if (spec_.rotate) {
      rotate_back(std::move(node), value_size);
    } else {
      nodes_.push_back(std::move(node));
    }
    return std::move(nodes_);
  }

 private:
  void quantize(Node& node, std::size_t input, std::int64_t size, const std::string& past) {
    const std::string from = node.inputs[input];
    std::string& made = made_[{from, past}];
    if (made.empty()) made = codes_of(node, input, size);
    node.inputs[input] = made;
  }

  /// An input behind what rotates it and its quantizer.
  std::string codes_of(const Node& node, std::size_t input, std::int64_t size) {
    const std::string& from = node.inputs[input];
    refuse_quantized(node, from);
    const bool by_head = has_heads_apart(node, from);
    const std::int64_t group = spec_.block_cols > 0 ? static_cast<std::int64_t>(spec_.block_cols) : size;
    if (size % group != 0)
      throw Error(text_of(node) + ": groups of " + std::to_string(group) + " do not divide its heads of " +
                      std::to_string(size),
                  ErrorKind::kUsage);
    const std::string kept = spec_.rotate ? rotated(node, input, size) : from;
    const std::string split = reshaped(kept, from + "_groups", in_pieces(by_head, size, group));
    const std::string quantized = quantizer(split, from);
    std::string made = reshaped(quantized, from + "_codes", whole(by_head, size));
    graph_.values[made] = *graph_.find(from);
    return made;
  }

  /// Whether heads have an axis of their own: [batch, heads, positions, size], not [batch, positions, heads *
  /// size].
  bool has_heads_apart(const Node& node, const std::string& value) const {
    const auto rank = graph_.rank_of(value);
    if (rank && (*rank == 3 || *rank == 4)) return *rank == 4;
    throw Error(text_of(node) + ": expected queries, keys and values of 3 or 4 axes, found " +
                quote_text(value) + (rank ? " of " + std::to_string(*rank) : " of nobody knows how many"));
  }

  static std::vector<std::int64_t> in_pieces(bool by_head, std::int64_t size, std::int64_t piece) {
    if (by_head) return {0, 0, 0, size / piece, piece};
    return {0, 0, -1, piece};
  }

  static std::vector<std::int64_t> whole(bool by_head, std::int64_t size) {
    if (by_head) return {0, 0, 0, size};
    return {0, 0, -1};
  }

  /// Returns an input with its heads, of this size, multiplied by the Hadamard matrix.
  std::string rotated(const Node& node, std::size_t input, std::int64_t size) {
    const std::string& from = node.inputs[input];
    const std::string made = product(node, from, from, size);
    graph_.values[made] = *graph_.find(from);
    return made;
  }

  /// Adds the node, and the nodes that rotate its output back.
  void rotate_back(Node node, std::int64_t size) {
    const std::string output = node.outputs[0];
    node.outputs[0] = add_value(graph_, output + "_of_rotated", *graph_.find(output));
    nodes_.push_back(node);
    (void)product(node, node.outputs[0], output, size);
    nodes_.back().outputs[0] = output;
  }

  static std::int64_t piece_of(const Node& node, std::int64_t size) {
    const std::int64_t piece = size & -size;  // the greatest power of two that divides it
    if (piece > 1) return piece;
    throw Error(text_of(node) + ": its heads of " + std::to_string(size) +
                    " cannot be rotated by a Hadamard matrix, whose size is a power of two",
                ErrorKind::kUsage);
  }

  std::string product(const Node& node, const std::string& from, const std::string& requested,
                      std::int64_t size) {
    const bool by_head = has_heads_apart(node, from);
    const std::int64_t piece = piece_of(node, size);
    std::string& matrix = matrices_[piece];
    if (matrix.empty())
      matrix = add_constant(graph_, std::string(kCacheRotation) + std::to_string(piece), hadamard(piece));
    const std::string split = reshaped(from, requested + "_pieces", in_pieces(by_head, size, piece));
    const std::string made = add_value(graph_, requested + "_rotated_pieces", *graph_.find(split));
    nodes_.push_back({.name = graph_.unused_node_name(made),
                      .op = "MatMul",
                      .version = graph_.opset(),
                      .inputs = {split, matrix},
                      .outputs = {made}});
    return reshaped(made, requested + "_rotated", whole(by_head, size));
  }

  void refuse_quantized(const Node& node, const std::string& value) const {
    std::size_t at = links_.producer(value);
    while (at != Links::kNone && graph_.nodes[at].is("Reshape"))
      at = links_.producer(graph_.nodes[at].inputs[0]);
    if (at != Links::kNone && is_quantizer(graph_.nodes[at]))
      throw Error(text_of(node) + ": its cache is quantized already, by " + text_of(graph_.nodes[at]),
                  ErrorKind::kUsage);
  }

  std::string reshaped(const std::string& from, const std::string& requested,
                       const std::vector<std::int64_t>& shape) {
    const std::string sizes = add_constant(graph_, requested + "_shape",
                                           Tensor::ints({static_cast<std::int64_t>(shape.size())}, shape));
    Shape known;
    for (const std::int64_t size : shape) known.push_back(size > 0 ? Dim(size) : Dim());
    const std::string made =
        add_value(graph_, requested, {.type = ElementType::kFloat, .shape = known, .annotations = {}});
    nodes_.push_back({.name = graph_.unused_node_name(made),
                      .op = "Reshape",
                      .version = graph_.opset(),
                      .inputs = {from, sizes},
                      .outputs = {made}});
    return made;
  }

  std::string quantizer(const std::string& split, const std::string& requested) {
    PlannedEdge edge{.value = split, .spec = spec_, .scale = 1};
    if (spec_.granularity != Granularity::kTensor) edge.spec.granularity = Granularity::kToken;
    std::vector<Node> made = activation_quantizer(graph_, edge, split);
    made.back().inputs[0] = split;
    made.back().outputs = {add_value(graph_, requested + "_quantized", *graph_.find(split))};
    made.back().name = graph_.unused_node_name(requested + "_quant");
    std::ranges::move(made, std::back_inserter(nodes_));
    return nodes_.back().outputs[0];
  }

  Graph& graph_;
  const Links links_;
  const QuantSpec& spec_;
  std::vector<Node> nodes_;
  std::map<std::int64_t, std::string> matrices_;                     // by their size
  std::map<std::pair<std::string, std::string>, std::string> made_;  // by what they quantize, and its past
};

}  // namespace

Graph with_quantized_cache(Graph graph, const QuantSpec& spec) {
  std::map<std::size_t, std::size_t> keepers;  // by the nodes that attend over what they keep
  for (const AttentionCache& cache : attention_caches(graph, Links(graph))) {
    keepers[cache.keeper] = cache.keeper;
    for (const auto* const readers : {&cache.beside, &cache.behind})
      for (const std::size_t reader : *readers) keepers[reader] = cache.keeper;
  }
  Inserter inserter(graph, spec);
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (const auto found = keepers.find(i); found == keepers.end()) {
      nodes.push_back(graph.nodes[i]);
    } else {
      std::ranges::move(inserter.around(graph.nodes[i], graph.nodes[found->second]),
                        std::back_inserter(nodes));
    }
  }
  if (keepers.empty())
    throw Error("the graph has no attention that keeps keys and values", ErrorKind::kUsage);
  graph.nodes = std::move(nodes);
  return graph;
}

}  // namespace crumb::graph

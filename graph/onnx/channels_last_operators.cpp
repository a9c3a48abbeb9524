#include "graph/onnx/channels_last_operators.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/replace_nodes.h"

namespace crumb::graph {
namespace {

constexpr std::int64_t kInferenceSet = 9, kDilatedSet = 11;

bool is_pool_of_qonnx(const Node& node) { return node.is("MaxPoolNHWC", kQonnxDomain); }

bool has_last_channels(const Node& node) {
  if (is_pool_of_qonnx(node)) return true;
  return node.domain == kChannelsLastDomain &&
         (node.op == "Conv" || node.op == "MaxPool" || node.op == "BatchNormalization");
}

using Order = std::vector<std::int64_t>;

Order channels_to_front(std::size_t rank) {
  Order order{0, static_cast<std::int64_t>(rank) - 1};
  for (std::size_t i = 1; i + 1 < rank; ++i) order.push_back(static_cast<std::int64_t>(i));
  return order;
}

Order channels_to_back(std::size_t rank) {
  Order order{0};
  for (std::size_t i = 2; i < rank; ++i) order.push_back(static_cast<std::int64_t>(i));
  order.push_back(1);
  return order;
}

/// Versions of BatchNormalization before 9 may train; QONNX's node is inference. MaxPoolNHWC has the
/// attributes of MaxPool 11.
std::int64_t version_of(const Node& node) {
  if (is_pool_of_qonnx(node)) return kDilatedSet;
  return node.op == "BatchNormalization" ? std::max(node.version, kInferenceSet) : node.version;
}

bool write(NodeWriter& writer) {
  const Node& node = writer.node();
  const auto rank = node.has_input(0) ? writer.rank_of(node.inputs[0]) : std::nullopt;
  if (!rank || *rank < 2 || node.outputs.size() != 1) return false;
  const NodeWriter::Attributes to_front{{"perm", channels_to_front(*rank)}};
  std::vector<std::string> inputs = node.inputs;
  inputs[0] = writer.add("Transpose", {inputs[0]}, to_front);
  if (node.op == "Conv" && node.has_input(1)) inputs[1] = writer.add("Transpose", {inputs[1]}, to_front);
  const std::string op = is_pool_of_qonnx(node) ? "MaxPool" : node.op;
  const std::string made = writer.add(op, std::move(inputs), node.attributes, version_of(node));
  writer.add("Transpose", {made}, {{"perm", channels_to_back(*rank)}});
  return true;
}

}  // namespace

Graph channels_first_operators(Graph graph, const std::function<bool(const Node&)>& is_wanted) {
  const auto is_candidate = [&](const Node& node) { return has_last_channels(node) && is_wanted(node); };
  if (std::ranges::none_of(graph.nodes, is_candidate)) return graph;
  return replace_nodes(infer_shapes(std::move(graph)), is_candidate, write);
}

}  // namespace crumb::graph

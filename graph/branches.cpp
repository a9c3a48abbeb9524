#include "graph/branches.h"

#include <string_view>
#include <utility>

#include "graph/edit.h"

namespace crumb::graph {
namespace {

constexpr std::string_view kBaseSuffix = ".base";

}  // namespace

std::string add_node(Graph& graph, const std::string& op, const std::string& requested,
                     std::vector<std::string> inputs, std::map<std::string, Attribute> attributes) {
  const std::string value = add_value(graph, requested, {.type = ElementType::kFloat, .shape = {}});
  graph.nodes.push_back({.name = graph.unused_node_name(requested),
                         .op = op,
                         .version = graph.opset(),
                         .inputs = std::move(inputs),
                         .outputs = {value},
                         .attributes = std::move(attributes)});
  return value;
}

Branch add_to_output(Graph& graph, std::size_t node, const std::string& addend, const std::string& taker,
                     const std::string& name, const std::string& stem) {
  const std::string y = graph.nodes[node].outputs[0];
  Value known;
  if (const Value* found = graph.find(y)) known = Value{.type = found->type, .shape = found->shape};
  const std::string base = add_value(graph, y + "." + name + std::string(kBaseSuffix), known);
  graph.nodes[node].outputs[0] = base;
  graph.nodes.push_back({.name = graph.unused_node_name(stem + ".sum"),
                         .op = "Add",
                         .version = graph.opset(),
                         .inputs = {base, addend},
                         .outputs = {y}});
  return {.sum = y, .product = base, .taker = taker};
}

namespace {

/// Whether add_to_output() made this sum: its first input has the product's new name, and a node computes its
/// second.
bool is_sum(const Links& links, const Node& node) {
  if (!node.is("Add") || node.inputs.size() != 2 || links.producer(node.inputs[1]) == Links::kNone)
    return false;
  const std::string& base = node.inputs[0];
  if (!base.starts_with(node.outputs[0] + ".")) return false;
  const std::size_t end = base.rfind(kBaseSuffix);
  if (end == std::string::npos || end <= node.outputs[0].size()) return false;
  const std::string_view rest =
      std::string_view(base).substr(end + kBaseSuffix.size());  // "_1" where the name was taken
  return rest.empty() ||
         (rest[0] == '_' && rest.find_first_not_of("0123456789", 1) == std::string_view::npos);
}

/// Returns the nodes that compute the addend from the product's input, the last one first; empty where none
/// of it comes from there.
std::vector<std::size_t> addend_nodes(const Graph& graph, const Links& links, std::string value,
                                      const std::string& input) {
  std::vector<std::size_t> nodes;
  while (value != input) {
    const std::size_t at = links.producer(value);
    if (at == Links::kNone || graph.nodes[at].inputs.empty()) return {};
    nodes.push_back(at);
    value = graph.nodes[at].inputs[0];
  }
  return nodes;
}

}  // namespace

Branches branches_of(const Graph& graph, const Links& links) {
  Branches all;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is_sum(links, graph.nodes[i])) continue;
    std::size_t product = links.producer(graph.nodes[i].inputs[0]);
    while (product != Links::kNone && is_sum(links, graph.nodes[product]))
      product = links.producer(graph.nodes[product].inputs[0]);
    if (product == Links::kNone) continue;
    const Node& node = graph.nodes[product];
    const auto between = addend_nodes(graph, links, graph.nodes[i].inputs[1], node.inputs[0]);
    if (between.empty()) continue;
    all.nodes.insert(between.begin(), between.end());
    all.nodes.insert(i);
    all.sums.push_back({.sum = graph.nodes[i].outputs[0],
                        .product = node.outputs[0],
                        .taker = graph.nodes[between.back()].outputs[0]});
  }
  return all;
}

std::size_t last_sum_behind(const Graph& graph, const Links& links, std::size_t node) {
  for (;;) {
    const std::string& base = graph.nodes[node].outputs.at(0);
    const auto consumers = links.consumers(base);
    if (consumers.size() != 1 || links.is_output(base)) return node;
    const Node& sum = graph.nodes[consumers[0]];
    if (!is_sum(links, sum) || sum.inputs[0] != base) return node;
    node = consumers[0];
  }
}

}  // namespace crumb::graph

#include "graph/beside.h"

#include <utility>

#include "graph/edit.h"

namespace crumb::graph {

std::string add_node(Graph& graph, const std::string& op, const std::string& wish,
                     std::vector<std::string> inputs, std::map<std::string, Attribute> attributes) {
  const std::string value = add_value(graph, wish, {.type = ElementType::kFloat, .shape = {}});
  graph.nodes.push_back({.name = graph.unused_node_name(wish),
                         .op = op,
                         .version = graph.opset(),
                         .inputs = std::move(inputs),
                         .outputs = {value},
                         .attributes = std::move(attributes)});
  return value;
}

Beside add_to_output(Graph& graph, std::size_t node, const std::string& addend, const std::string& taker,
                     const std::string& name, const std::string& stem) {
  const std::string y = graph.nodes[node].outputs[0];
  Value known;
  if (const Value* found = graph.find(y)) known = Value{.type = found->type, .shape = found->shape};
  const std::string base = add_value(graph, y + "." + name + ".base", known);
  graph.nodes[node].outputs[0] = base;
  graph.nodes.push_back({.name = graph.unused_node_name(stem + ".sum"),
                         .op = "Add",
                         .version = graph.opset(),
                         .inputs = {base, addend},
                         .outputs = {y}});
  return {.sum = y, .product = base, .taker = taker};
}

namespace {

/// Whether it is a sum that add_to_output() made.
bool is_sum(const Node& node) {
  return node.is("Add") && node.inputs.size() == 2 && node.inputs[0].starts_with(node.outputs[0] + ".");
}

/// The nodes that make the addend of the product's input, the first one last; empty where they are none of that.
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

AllBeside all_beside(const Graph& graph, const Links& links) {
  AllBeside all;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is_sum(graph.nodes[i])) continue;
    std::size_t product = links.producer(graph.nodes[i].inputs[0]);
    while (product != Links::kNone && is_sum(graph.nodes[product]))
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
    if (!is_sum(sum) || sum.inputs[0] != base) return node;
    node = consumers[0];
  }
}

}  // namespace crumb::graph

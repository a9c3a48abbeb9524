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

void add_to_output(Graph& graph, std::size_t node, const std::string& addend, const std::string& name,
                   const std::string& stem) {
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
}

}  // namespace crumb::graph

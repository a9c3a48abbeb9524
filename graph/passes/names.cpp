#include <algorithm>
#include <set>

#include "graph/edit.h"
#include "graph/passes/passes.h"

namespace crumb::graph {
namespace {

bool is_plain(const std::string& name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !name.empty() && letter(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_'; });
}

}  // namespace

Graph readable_names(Graph graph) {
  std::map<std::string, std::string> names;
  std::set<std::string> taken;
  const auto give = [&](const std::string& value, const std::string& requested) {
    if (value.empty() || names.contains(value)) return;
    std::string name = requested;
    for (int i = 1; !taken.insert(name).second; ++i) name = requested + "_" + std::to_string(i);
    names[value] = name;
  };
  const auto give_boundary = [&](const std::vector<std::string>& values, const char* requested) {
    for (const std::string& value : values) {
      if (is_plain(value)) give(value, value);
    }
    for (const std::string& value : values) give(value, requested);
  };
  give_boundary(graph.inputs, "global_in");
  give_boundary(graph.outputs, "global_out");
  std::map<std::string, int> counts;
  for (Node& node : graph.nodes) {
    node.name = node.op + "_" + std::to_string(counts[node.op]++);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (graph.constant(node.inputs[i]) || graph.quantized.contains(node.inputs[i]))
        give(node.inputs[i], node.name + "_param" + std::to_string(i));
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      give(node.outputs[i], node.name + "_out" + std::to_string(i));
  }
  rename_values(graph, names);
  return tidy(std::move(graph));
}

}  // namespace crumb::graph

#include "graph/onnx/loop_bodies.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "graph/fresh_names.h"
#include "graph/loop_parts.h"
#include "graph/onnx/if_nodes.h"

namespace crumb::graph {
namespace {

using Names = std::map<std::string, std::string>;

template <class See>
void see_names(const Graph& graph, const See& see) {
  std::ranges::for_each(graph.inputs, see);
  for (const auto& [name, tensor] : graph.initializers) see(name);
  for (const auto& [name, constant] : graph.quantized) see(name);
  for (const auto& [name, value] : graph.values) see(name);
  for (const Node& node : graph.nodes) std::ranges::for_each(node.outputs, see);
}

/// The graph that an attribute holds; null: none.
Opaque* graph_in(Attribute& attribute) {
  auto* opaque = std::get_if<Opaque>(&attribute);
  return opaque && opaque->body ? opaque : nullptr;
}

class Opener {
 public:
  explicit Opener(const Graph& graph) {
    see_names(graph, [&](const std::string& name) { names_.take(name); });
  }

  void open(std::vector<Node>& nodes) {
    for (Node& node : nodes) {
      if (is_loop(node)) {
        open_loop(node);
        continue;
      }
      for (auto& [name, attribute] : node.attributes) {
        Opaque* const branch = graph_in(attribute);
        if (!branch) continue;
        Graph body = *branch->body;
        for (const Node& inside : body.nodes)
          for (const std::string& made : inside.outputs) names_.take(made);
        open(body.nodes);
        branch->body = std::make_shared<const Graph>(std::move(body));
      }
    }
  }

 private:
  void open_loop(Node& node) {
    Opaque& opaque = *graph_in(node.attributes.at("body"));
    Graph body = with_if_nodes(*opaque.body);
    Names names;
    for (std::size_t i = opaque.own_inputs; i < body.inputs.size(); ++i)
      names.emplace(body.inputs[i], node.inputs[i]);
    body.inputs.resize(opaque.own_inputs);
    node.inputs.resize(opaque.own_inputs);
    std::set<std::string> own;
    see_names(body, [&](const std::string& name) {
      if (!name.empty() && !names.contains(name)) own.insert(name);
    });
    for (const std::string& name : own) names.emplace(name, names_.unlike(name));
    give_own_outputs(body, own);
    rename(body, names);
    open(body.nodes);
    opaque.body = std::make_shared<const Graph>(std::move(body));
  }

  /// An Identity for each output of a body that something outside makes.
  void give_own_outputs(Graph& body, const std::set<std::string>& own) {
    for (std::string& output : body.outputs) {
      if (own.contains(output)) continue;
      const std::string name = names_.unlike(output + "/given");
      body.nodes.push_back(
          {.name = name, .op = "Identity", .version = body.opset(), .inputs = {output}, .outputs = {name}});
      output = name;
    }
  }

  static void rename(Graph& body, const Names& names) {
    const auto name_of = [&](const std::string& name) {
      const auto found = names.find(name);
      return found == names.end() ? name : found->second;
    };
    const auto rename_all = [&](std::vector<std::string>& values) {
      for (std::string& value : values) value = name_of(value);
    };
    const auto renamed = [&](auto map) {
      decltype(map) made;
      for (auto& [name, value] : map) made.emplace(name_of(name), std::move(value));
      return made;
    };
    rename_all(body.inputs);
    rename_all(body.outputs);
    rename_in(body.nodes, rename_all);
    body.initializers = renamed(std::move(body.initializers));
    body.values = renamed(std::move(body.values));
  }

  /// Branches of If nodes see the body's names, too; loops take them as inputs.
  template <class RenameAll>
  static void rename_in(std::vector<Node>& nodes, const RenameAll& rename_all) {
    for (Node& node : nodes) {
      rename_all(node.inputs);
      rename_all(node.outputs);
      if (is_loop(node)) continue;
      for (auto& [name, attribute] : node.attributes) {
        Opaque* const branch = graph_in(attribute);
        if (!branch) continue;
        Graph inside = *branch->body;
        rename_in(inside.nodes, rename_all);
        rename_all(inside.outputs);
        branch->body = std::make_shared<const Graph>(std::move(inside));
      }
    }
  }

  FreshNames names_;
};

}  // namespace

bool has_loops(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& node) {
    if (is_loop(node)) return true;
    return std::ranges::any_of(node.attributes, [](const auto& entry) {
      const auto* opaque = std::get_if<Opaque>(&entry.second);
      return opaque && opaque->body && has_loops(*opaque->body);
    });
  });
}

Graph with_open_bodies(Graph graph) {
  Opener(graph).open(graph.nodes);
  return graph;
}

}  // namespace crumb::graph

#include "graph/inline_branches.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "base/within.h"
#include "graph/choose.h"
#include "graph/fresh_names.h"

namespace crumb::graph {
namespace {

constexpr const char* kBranchNames[] = {"then_branch", "else_branch"};
constexpr std::int64_t kFirstScan = 9;  // earlier ones had a batch and lengths

using Names = std::unordered_set<std::string>;

Opaque* body_of(Node& node, const char* attribute) {
  const auto found = node.attributes.find(attribute);
  auto* opaque = found == node.attributes.end() ? nullptr : std::get_if<Opaque>(&found->second);
  return opaque && opaque->body ? opaque : nullptr;
}

bool is_if(const Node& node) { return node.is("If"); }

/// The names that a graph gives to values.
Names made_by(const Graph& graph) {
  Names made(graph.inputs.begin(), graph.inputs.end());
  for (const auto& [name, tensor] : graph.initializers) made.insert(name);
  for (const Node& node : graph.nodes) made.insert(node.outputs.begin(), node.outputs.end());
  return made;
}

/// The values that a graph takes and does not make, in alphabetical order.
std::set<std::string> taken_from_outside(const Graph& graph) {
  const Names made = made_by(graph);
  std::set<std::string> taken;
  const auto see = [&](const std::string& value) {
    if (!value.empty() && !made.contains(value)) taken.insert(value);
  };
  for (const Node& node : graph.nodes) std::ranges::for_each(node.inputs, see);
  std::ranges::for_each(graph.outputs, see);
  return taken;
}

/// Gives the body of a Loop or Scan an input for each value that it takes from outside.
void close_body(Node& node) {
  Opaque* const opaque = body_of(node, "body");
  if (!opaque) return;
  if (node.is("Scan") && node.version < kFirstScan) {
    opaque->body = nullptr;
    return;
  }
  Graph body = *opaque->body;
  if (body.inputs.size() != node.inputs.size())
    throw Error(text_of(node) + " takes " + count_text(node.inputs.size(), "value") + ", and its body " +
                std::to_string(body.inputs.size()));
  opaque->own_inputs = body.inputs.size();
  for (const std::string& value : taken_from_outside(body)) {
    body.inputs.push_back(value);
    node.inputs.push_back(value);
  }
  try {
    opaque->body = std::make_shared<const Graph>(sorted(std::move(body)));
  } catch (const Error& error) {
    throw within(text_of(node), error);
  }
}

class Inliner {
 public:
  explicit Inliner(Graph& graph) : graph_(graph) {}

  void run() {
    for (Node& node : graph_.nodes)
      if (node.is("Loop") || node.is("Scan")) close_body(node);
    if (std::ranges::none_of(graph_.nodes, is_if)) return;
    for (Node& node : graph_.nodes) {
      for (const char* side : kBranchNames) {
        Opaque* const branch = is_if(node) ? body_of(node, side) : nullptr;
        if (branch && std::ranges::any_of(branch->body->nodes, is_if))
          branch->body = std::make_shared<const Graph>(inline_branches(*branch->body));
      }
    }
    take_names();
    std::vector<Node> nodes = std::exchange(graph_.nodes, {});
    for (Node& node : nodes) {
      if (is_if(node))
        inline_if(std::move(node));
      else
        graph_.nodes.push_back(std::move(node));
    }
    graph_.opsets[std::string(kControlDomain)] = 1;
  }

 private:
  /// Those of the graph, and those that branches take from outside of them: what is made within a branch must
  /// not be taken for these.
  void take_names() {
    for (const std::string& name : made_by(graph_)) values_.take(name);
    for (const std::string& name : taken_from_outside(graph_)) values_.take(name);
    for (const auto& [name, value] : graph_.values) values_.take(name);
    for (Node& node : graph_.nodes) {
      nodes_.take(node.name);
      if (!is_if(node)) continue;
      for (const char* side : kBranchNames) {
        if (const Opaque* branch = body_of(node, side))
          for (const std::string& name : taken_from_outside(*branch->body)) values_.take(name);
      }
    }
  }

  void inline_if(Node node) {
    if (node.inputs.size() != 1 || node.inputs[0].empty())
      throw Error(text_of(node) + " takes " + count_text(node.inputs.size(), "value") +
                  ", expected its condition");
    if (node.outputs.empty()) throw Error(text_of(node) + " makes no value");
    Node choose{.name = std::move(node.name),
                .op = std::string(kChoose),
                .domain = std::string(kControlDomain),
                .inputs = node.inputs,
                .outputs = node.outputs,
                .attributes = {},
                .metadata = std::move(node.metadata)};
    if (choose.name.empty()) choose.name = nodes_.unlike("If");
    node.name = choose.name;
    for (const char* side : kBranchNames) {
      const Opaque* branch = body_of(node, side);
      if (!branch) throw Error(text_of(node) + " has no graph " + quote_text(side));
      if (!branch->body->inputs.empty())
        throw Error(text_of(node) + ": its " + side + " takes the input " +
                    quote_text(branch->body->inputs[0]) + "; branches take none");
      if (branch->body->outputs.size() != node.outputs.size())
        throw Error(text_of(node) + " makes " + count_text(node.outputs.size(), "value") + ", and its " +
                    side + " " + std::to_string(branch->body->outputs.size()));
      for (std::string& output : put_in(*branch->body)) choose.inputs.push_back(std::move(output));
    }
    for (std::string& output : choose.outputs)
      if (output.empty()) output = values_.unlike(choose.name + "_unused");
    graph_.nodes.push_back(std::move(choose));
  }

  /// Adds a branch's nodes and constants; returns the names that its outputs have here.
  std::vector<std::string> put_in(const Graph& branch) {
    std::unordered_map<std::string, std::string> names;
    for (const std::string& name : made_by(branch))
      if (!name.empty()) names.emplace(name, values_.unlike(name));
    const auto name_of = [&](const std::string& name) {
      const auto found = names.find(name);
      return found == names.end() ? name : found->second;
    };
    for (Node node : branch.nodes) {
      if (!node.name.empty()) node.name = nodes_.unlike(node.name);
      for (std::string& value : node.inputs) value = name_of(value);
      for (std::string& value : node.outputs) value = name_of(value);
      graph_.nodes.push_back(std::move(node));
    }
    for (const auto& [name, tensor] : branch.initializers) graph_.initializers.emplace(name_of(name), tensor);
    for (const auto& [name, value] : branch.values)
      if (names.contains(name)) graph_.values[name_of(name)] = value;
    std::vector<std::string> outputs;
    for (const std::string& output : branch.outputs) outputs.push_back(name_of(output));
    return outputs;
  }

  Graph& graph_;
  FreshNames values_, nodes_;
};

}  // namespace

Graph inline_branches(Graph graph) {
  Inliner(graph).run();
  return graph;
}

}  // namespace crumb::graph

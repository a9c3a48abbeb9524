// The nodes and constants of a graph that is being rewritten, beside the graph itself. Internal to
// export/qcdq.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::exporting {

class Rewriter {
 public:
  explicit Rewriter(const graph::Graph& graph);

  void keep(const graph::Node& node) { nodes_.push_back(node); }

  /// The node is replaced: another may take its name.
  void release(const graph::Node& node) { node_names_.erase(node.name); }

  /// A new initializer, named `wish` or like it; its name.
  std::string constant(const std::string& requested, graph::Tensor tensor);

  /// A name for a value that a node will make.
  std::string fresh_value(const std::string& requested, graph::Value known);

  /// A new node of ONNX with one output, and that output's name: `output` where given, else the node's name.
  /// What is known of a given output stays as it is.
  struct New {
    std::string op, name;
    std::vector<std::string> inputs;
    std::map<std::string, graph::Attribute> attributes;
    std::string output;
    graph::Value known;
    std::string domain;
  };
  std::string node(New made);
  const std::string& last_node_name() const { return nodes_.back().name; }

  /// The graph with the kept and the new nodes.
  graph::Graph finish(graph::Graph graph) &&;

 private:
  std::string unused(std::set<std::string>& names, const std::string& requested);

  std::set<std::string> value_names_, node_names_;
  std::map<std::string, std::int64_t> opsets_;
  std::vector<graph::Node> nodes_;
  std::map<std::string, graph::Tensor> initializers_;
  std::map<std::string, graph::Value> values_;
};

/// The node's name; that of its output where it has none.
std::string name_of(const graph::Node& node);

}  // namespace crumb::exporting

// The graph that lowering makes: its names, constants and what is known of its values. Internal to lower/.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/fresh_names.h"
#include "graph/graph.h"

namespace crumb::runtime {

class MadeGraph {
 public:
  /// With the values and constants of `from`, and no nodes; names of all its values are taken.
  explicit MadeGraph(const graph::Graph& from);

  /// A name that no value has: the requested one, or that with a number.
  std::string fresh(const std::string& requested) { return names_.unlike(requested); }
  void push(graph::Node node) { graph_.nodes.push_back(std::move(node)); }

  /// What is known of codes: their type, and the shape of the value `like` that they stand for.
  void know(const std::string& codes, graph::ElementType type, const std::string& like);

  /// Adds a constant; returns its name.
  std::string add(const std::string& requested, graph::Tensor tensor);
  std::string add(const std::string& requested, graph::QuantizedConstant constant);

  /// Drops nodes and constants on which no output depends.
  void drop_unused();

  graph::Graph& graph() { return graph_; }

 private:
  graph::Graph graph_;
  graph::FreshNames names_;
};

template <class T>
graph::Tensor tensor_of(graph::ElementType type, std::vector<std::int64_t> shape,
                        const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {type, std::move(shape), {bytes.begin(), bytes.end()}};
}

}  // namespace crumb::runtime

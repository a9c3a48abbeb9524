// Writes a node as several others. Internal to graph/onnx.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/edit.h"
#include "graph/graph.h"

namespace crumb::graph {

/// Collects the nodes that take the place of one. The graph gets their values and constants at once, the
/// nodes when the caller adds them.
class NodeWriter {
 public:
  using Attributes = std::map<std::string, Attribute>;
  using Shared = std::map<std::string, std::string>;  ///< values that several nodes take, by what they are

  /// `names`: those of all nodes, to which the new ones are added. `shared`: what earlier writers made.
  NodeWriter(Graph& graph, const Node& node, std::set<std::string>& names, const Shared& shared)
      : graph_(graph), node_(node), names_(names), shared_(shared) {}

  const Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }

  /// Adds a node of ONNX's, of the graph's operator set or of a later version. Returns its output.
  std::string add(const std::string& op, std::vector<std::string> inputs, Attributes attributes = {},
                  std::int64_t version = 0);

  /// The same for a node of several outputs.
  std::vector<std::string> add_of_several(const std::string& op, std::vector<std::string> inputs,
                                          std::size_t outputs, Attributes attributes = {},
                                          std::int64_t version = 0);

  /// Returns the value that an earlier writer made under this key, else what `make` makes. The key says all
  /// that the value depends on.
  template <class Make>
  std::string once(const std::string& key, const Make& make) {
    if (const auto found = shared_.find(key); found != shared_.end()) return found->second;
    if (const auto found = made_once_.find(key); found != made_once_.end()) return found->second;
    return made_once_[key] = make();
  }

  /// Gives a value that was added this name, which is one of the node's own outputs. Returns it.
  std::string rename(const std::string& value, const std::string& output);

  std::string constant(const std::string& what, Tensor tensor) {
    return add_constant(graph_, base() + "_" + what, std::move(tensor));
  }
  std::string number(const std::string& what, float value) { return constant(what, Tensor::scalar(value)); }

  /// DequantizeLinear of node inputs [first, first + 3): value, scale, zero point. `axis`: along which scales
  /// that are no single number lie; negative ones count from the last.
  std::string dequantized(std::size_t first, std::optional<std::int64_t> axis = std::nullopt);
  std::string dequantized(const std::string& value, const std::string& scale, const std::string& zero,
                          std::optional<std::int64_t> axis = std::nullopt);

  /// QuantizeLinear by node inputs [first, first + 2): scale, zero point. Where there is no zero point it is
  /// the zero of the type that input `like`, a zero point or a value, has.
  std::string quantized(const std::string& value, std::size_t first, std::size_t like);

  /// Returns node input i; "" where it has none.
  std::string input(std::size_t i) const { return node_.has_input(i) ? node_.inputs[i] : ""; }

  /// Returns the initializer that is input i, or null.
  const Tensor* constant_input(std::size_t i) const {
    return node_.has_input(i) ? graph_.constant(node_.inputs[i]) : nullptr;
  }

  /// The axes of a value, where they are known.
  std::optional<std::size_t> rank_of(const std::string& value) const { return graph_.rank_of(value); }

  /// The last node that was added makes the node's first output, unless rename() gave that to another.
  /// Returns all of them, and adds to `shared` what once() made.
  std::vector<Node> finish(Shared& shared);

 private:
  std::string base() const { return node_.name.empty() ? node_.outputs[0] : node_.name; }
  std::string single(const std::string& name);
  /// Returns the constant with as many elements as `other` has, where one is one number and one a list.
  std::string as_long_as(const std::string& name, const std::string& other);
  void put(const std::string& output, const std::string& op, std::vector<std::string> inputs,
           Attributes attributes, std::int64_t version);

  Graph& graph_;
  const Node& node_;
  std::set<std::string>& names_;
  const Shared& shared_;
  Shared made_once_;
  std::vector<Node> made_;
};

}  // namespace crumb::graph

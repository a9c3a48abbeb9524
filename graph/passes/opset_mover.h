// Moves single nodes between versions of ONNX's operator set. Internal to graph/passes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

class NodeMover {
 public:
  /// Takes the nodes out of the graph. Precondition: types and shapes are inferred.
  NodeMover(Graph& graph, std::int64_t target);

  /// Puts the nodes back, each of ONNX's as operator set `target` defines it. Returns the nodes that it
  /// cannot express, and why: "node 'a' (Op) does this; node 'b' (Op) does that"; empty if there are none.
  std::string go();

 private:
  using Why = std::optional<std::string>;
  using Ints = std::vector<std::int64_t>;

  bool crosses(std::int64_t from, std::int64_t version) const { return (from < version) != (to_ < version); }
  bool up(std::int64_t from, std::int64_t version) const { return from < version && to_ >= version; }
  bool down(std::int64_t from, std::int64_t version) const { return from >= version && to_ < version; }

  Why move(Node& node);
  Why rewrite(Node& node, std::int64_t from);

  // Checks of every operator: the target knows its attributes, takes as many inputs, and takes their types.
  Why attributes_fit(Node& node, std::int64_t from) const;
  Why inputs_fit(const Node& node) const;
  Why types_fit(const Node& node) const;

  // Attributes that became inputs (opset_mover.cpp).
  Why axes_at(Node& node, std::int64_t from, std::int64_t version);
  Why clip(Node& node, std::int64_t from);
  Why dropout(Node& node, std::int64_t from);
  Why slice(Node& node, std::int64_t from);
  Why split(Node& node, std::int64_t from);
  Why pad(Node& node, std::int64_t from);
  Why top_k(Node& node, std::int64_t from);
  Why reshape(Node& node, std::int64_t from);
  Why shape(Node& node, std::int64_t from);
  Why constant_value(Node& node, std::int64_t from);

  // Operators whose meaning changed (opset_layers.cpp).
  Why softmax(Node& node, std::int64_t from);
  Why softmax_of_rows(Node& node);
  Why softmax_of_axis(Node& node, std::int64_t axis, std::size_t rank);
  Why batch_norm(Node& node, std::int64_t from);
  Why upsample(Node& node, std::int64_t from);
  Why old_sampling(Node& node);
  void old_nearest(Node& node);
  Why resize(Node& node, std::int64_t from);
  Why scatter(Node& node, std::int64_t from);
  Why roi_align(Node& node, std::int64_t from);
  Why grid_sample(Node& node, std::int64_t from);
  Why quantize_linear(Node& node, std::int64_t from);

  // Small steps of the functions above.
  std::string constant(const Node& node, const char* what, Tensor tensor);
  std::string ints(const Node& node, const char* what, const Ints& values);
  static void set_input(Node& node, std::size_t i, std::string value);
  std::optional<Ints> ints_of(const Node& node, std::size_t i) const;
  void attribute_to_input(Node& node, const char* name, std::size_t i);
  Why input_to_attribute(Node& node, const char* name, std::size_t i);
  const Shape* shape_of(const Node& node, std::size_t i) const;
  /// Adds a node before `node`, with the target's version. Returns the name of its output.
  std::string before(const Node& node, const char* op, std::vector<std::string> inputs,
                     std::map<std::string, Attribute> attributes = {});
  /// Gives `node` a new output, and returns its name; a node that takes it is to make the old output.
  std::string divert(Node& node, const char* what);
  /// Adds a node behind `node`.
  void after(const Node& node, const char* op, std::vector<std::string> inputs, std::string output,
             std::map<std::string, Attribute> attributes = {});
  std::string name_for(const Node& node, const char* op);

  Graph& graph_;
  const std::int64_t to_;
  std::vector<Node> nodes_, made_, behind_;
  std::set<std::string> names_;
};

/// Replaces operators that operator set `target` lacks, or defines otherwise, by simpler ones of the graph's
/// own operator set (opset_bodies.cpp): in the usual form if there is one, else by the standard's body. An
/// operator without a body stays. Types and shapes are inferred, before and after.
Graph expand_for_opset(Graph graph, std::int64_t target);

/// Whether expand_for_opset would replace the node.
bool needs_body(const Node& node, std::int64_t target);

}  // namespace crumb::graph

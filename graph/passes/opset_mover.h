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
  /// Takes the nodes out of the graph, in which types and shapes are inferred.
  NodeMover(Graph& graph, std::int64_t target);

  /// Puts the nodes back, every one of ONNX's as operator set `target` writes it. Says which cannot, and why: "node
  /// 'a' (Op) does this; node 'b' (Op) does that". Empty where all can.
  std::string go();

 private:
  using Why = std::optional<std::string>;
  using Ints = std::vector<std::int64_t>;

  bool crosses(std::int64_t from, std::int64_t version) const { return (from < version) != (to_ < version); }
  bool up(std::int64_t from, std::int64_t version) const { return from < version && to_ >= version; }
  bool down(std::int64_t from, std::int64_t version) const { return from >= version && to_ < version; }

  Why move(Node& node);
  Why rewrite(Node& node, std::int64_t from);

  // What every operator needs: attributes that the target knows, as many inputs as it takes, of types that it takes.
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

  // Small things that those are made of.
  std::string constant(const Node& node, const char* what, Tensor tensor);
  std::string ints(const Node& node, const char* what, const Ints& values);
  static void set_input(Node& node, std::size_t i, std::string value);
  std::optional<Ints> ints_of(const Node& node, std::size_t i) const;
  void attribute_to_input(Node& node, const char* name, std::size_t i);
  Why input_to_attribute(Node& node, const char* name, std::size_t i);
  const Shape* shape_of(const Node& node, std::size_t i) const;
  /// A new node before `node`, written for the target; the name of its output.
  std::string before(const Node& node, const char* op, std::vector<std::string> inputs,
                     std::map<std::string, Attribute> attributes = {});
  /// A new value that `node` makes instead of its output, which a node made of it is to make: its name.
  std::string divert(Node& node, const char* what);
  /// A new node behind `node`.
  void after(const Node& node, const char* op, std::vector<std::string> inputs, std::string output,
             std::map<std::string, Attribute> attributes = {});
  std::string name_for(const Node& node, const char* op);

  Graph& graph_;
  const std::int64_t to_;
  std::vector<Node> nodes_, made_, behind_;
  std::set<std::string> names_;
};

/// Operators that operator set `target` does not have, or understands otherwise, by simpler ones of the graph's own
/// operator set (opset_bodies.cpp): as people write them where there is a usual way, else by the body that the
/// standard gives. What has none stays. Types and shapes are inferred, before and after.
Graph expand_for_opset(Graph graph, std::int64_t target);

/// Whether expand_for_opset would look at the node.
bool needs_body(const Node& node, std::int64_t target);

}  // namespace crumb::graph

// Writes operators that an older operator set lacks with simpler ones.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <tuple>

#include "graph/edit.h"
#include "graph/onnx/expand_functions.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/schemas.h"
#include "graph/passes/opset_mover.h"
#include "graph/passes/passes.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;
using Attributes = std::map<std::string, Attribute>;

constexpr std::int64_t kMostAxes = 64;
constexpr int kMostRounds = 3;                             // depth of operators within the bodies of others
constexpr std::int64_t kMostMask = std::int64_t{1} << 24;  // bytes of all triangle masks together

/// onnxruntime's name for RMSNormalization, which ONNX does not have.
bool is_simplified(const Node& node) { return node.is("SimplifiedLayerNormalization"); }

class BodyWriter {
 public:
  BodyWriter(Graph& graph, std::int64_t target) : graph_(graph), target_(target) {}

  void go() {
    std::vector<Node> nodes = std::exchange(graph_.nodes, {});
    for (const Node& node : nodes) {
      names_.insert(node.name);
      for (const std::string& value : node.outputs) {
        if (!value.empty()) graph_.values[value];  // so that no new value takes the name
      }
    }
    for (Node& node : nodes) {
      if (!needs_body(node, target_) || !write(node)) made_.push_back(std::move(node));
    }
    graph_.nodes = std::move(made_);
  }

 private:
  bool write(const Node& node) {
    if (!node.has_input(0) || !node.has_output(0)) return false;
    if (node.op == "Trilu") return triangle(node);
    const Value* x = graph_.find(node.inputs[0]);
    if (!x || x->type != ElementType::kFloat) return false;
    if (node.op == "LayerNormalization") return layer_norm(node, true);
    if (node.op == "RMSNormalization" || is_simplified(node)) return layer_norm(node, false);
    if (node.op == "Gelu") return gelu(node);
    return false;
  }

  std::string add(const Node& node, const char* op, std::vector<std::string> inputs,
                  Attributes attributes = {}) {
    std::string name = node.name + "_" + op;
    for (int i = 1; !names_.insert(name).second; ++i) name = node.name + "_" + op + "_" + std::to_string(i);
    const std::string output = add_value(graph_, name + "_out", {.type = ElementType::kFloat});
    made_.push_back({.name = name,
                     .op = op,
                     .version = graph_.opset(),
                     .inputs = std::move(inputs),
                     .outputs = {output},
                     .attributes = std::move(attributes)});
    return output;
  }

  /// The last node added produces the node's output.
  bool end(const Node& node) {
    graph_.values.erase(made_.back().outputs[0]);
    made_.back().outputs[0] = node.outputs[0];
    return true;
  }

  std::string number(const Node& node, const char* what, float value) {
    return add_constant(graph_, node.name + "_" + what, Tensor::scalar(value));
  }

  std::string mean(const Node& node, const std::string& value, const Ints& axes) {
    if (graph_.opset() < 18) return add(node, "ReduceMean", {value}, {{"axes", axes}});
    const auto count = static_cast<std::int64_t>(axes.size());
    return add(node, "ReduceMean",
               {value, add_constant(graph_, node.name + "_axes", Tensor::ints({count}, axes))});
  }

  /// LayerNormalization, or RMSNormalization, which does not subtract the mean.
  bool layer_norm(const Node& node, bool centers) {
    for (std::size_t i = 1; i < node.outputs.size(); ++i) {
      if (node.has_output(i)) return false;
    }
    if (node.int_or("stash_type", 1) != 1) return false;
    const auto rank = graph_.rank_of(node.inputs[0]);
    std::int64_t axis = node.int_or("axis", -1);
    if (axis >= 0 && !rank) return false;
    if (axis >= 0) axis -= static_cast<std::int64_t>(*rank);
    if (axis < -kMostAxes) return false;
    Ints axes;
    for (std::int64_t i = axis; i < 0; ++i) axes.push_back(i);
    if (axes.empty() || axes.size() > rank.value_or(axes.size())) return false;
    std::string x = node.inputs[0];
    if (centers) x = add(node, "Sub", {x, mean(node, x, axes)});
    const std::string variance = mean(node, add(node, "Mul", {x, x}), axes);
    const std::string padded =
        add(node, "Add", {variance, number(node, "epsilon", node.float_or("epsilon", 1e-5F))});
    std::string made = add(node, "Div", {x, add(node, "Sqrt", {padded})});
    if (node.has_input(1)) made = add(node, "Mul", {made, node.inputs[1]});
    if (node.has_input(2)) made = add(node, "Add", {made, node.inputs[2]});
    return end(node);
  }

  bool gelu(const Node& node) {
    const std::string& x = node.inputs[0];
    std::string inner;
    if (node.text_or("approximate", "none") == "tanh") {
      const std::string cube = add(node, "Mul", {add(node, "Mul", {x, x}), x});
      const std::string sum =
          add(node, "Add", {x, add(node, "Mul", {cube, number(node, "cubic", 0.044715F)})});
      const auto factor = static_cast<float>(std::sqrt(2 / std::numbers::pi));
      inner = add(node, "Tanh", {add(node, "Mul", {sum, number(node, "factor", factor)})});
    } else {
      const auto root = static_cast<float>(std::numbers::sqrt2);
      inner = add(node, "Erf", {add(node, "Div", {x, number(node, "root", root)})});
    }
    const std::string gate = add(node, "Add", {inner, number(node, "one", 1)});
    add(node, "Mul", {add(node, "Mul", {x, gate}), number(node, "half", 0.5F)});
    return end(node);
  }

  /// A constant mask replaces Trilu.
  bool triangle(const Node& node) {
    const Value* x = graph_.find(node.inputs[0]);
    const Tensor* shift = constant_input(graph_, node, 1);
    if (!x || !x->shape || x->shape->size() < 2 || (node.has_input(1) && !shift)) return false;
    const std::size_t rank = x->shape->size();
    const Dim &rows = (*x->shape)[rank - 2], &columns = (*x->shape)[rank - 1];
    if (!rows.known() || !columns.known() || info(x->type).bits < 8) return false;
    if (shift && shift->size() != 1) return false;
    const std::int64_t k = shift ? shift->to_ints().front() : 0;
    const bool upper = node.int_or("upper", 1) != 0;
    const auto kept = triangle_mask(rows.size, columns.size, k, upper);
    if (!kept) return false;
    const ElementType type = x->type;
    const std::string zero = add_constant(graph_, node.name + "_zero",
                                          Tensor(type, {}, std::vector<std::byte>(info(type).bits / 8)));
    add(node, "Where", {*kept, node.inputs[0], zero});
    return end(node);
  }

  /// Returns the name of a constant of bools; nothing where it would be too large. Equal arguments share one
  /// constant.
  std::optional<std::string> triangle_mask(std::int64_t rows, std::int64_t columns, std::int64_t k,
                                           bool upper) {
    const auto [place, fresh] = masks_.try_emplace({rows, columns, k, upper});
    if (!fresh) return place->second;
    const auto size = count_elements(Ints{rows, columns});
    if (!size.ok() || size.value() == 0 || size.value() > kMostMask - mask_bytes_) return {};
    mask_bytes_ += size.value();
    std::vector<std::byte> mask;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        mask.push_back(static_cast<std::byte>(upper ? j - i >= k : j - i <= k));
      }
    }
    Tensor tensor(ElementType::kBool, {rows, columns}, std::move(mask));
    return place->second = add_constant(graph_, "triangle_mask", std::move(tensor));
  }

  Graph& graph_;
  const std::int64_t target_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, bool>, std::optional<std::string>> masks_;
  std::int64_t mask_bytes_ = 0;
  std::vector<Node> made_;
  std::set<std::string> names_;
};

}  // namespace

bool needs_body(const Node& node, std::int64_t target) {
  if (node.domain != kOnnxDomain || is_opaque(node) || node.op == "Upsample") return false;
  if (is_simplified(node)) return true;
  const auto then = since_version(node.op, node.version), now = since_version(node.op, target);
  if (!then) return false;
  return !now || (now != then && (node.op == "GroupNormalization" || node.op == "Attention"));
}

Graph expand_for_opset(Graph graph, std::int64_t target) {
  const auto is_wanted = [&](const Node& node) { return needs_body(node, target); };
  for (int round = 0; round < kMostRounds; ++round) {
    BodyWriter(graph, target).go();
    graph = infer_shapes(sorted(std::move(graph)));
    if (std::ranges::none_of(graph.nodes, is_wanted)) break;
    graph = infer_shapes(plain_constants(expand_functions(std::move(graph), is_wanted)));
  }
  return graph;
}

}  // namespace crumb::graph

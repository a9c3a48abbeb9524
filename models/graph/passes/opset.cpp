#include "models/graph/passes/opset.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>

#include "models/graph/edit.h"
#include "models/graph/onnx/schemas.h"
#include "models/graph/passes/passes.h"

namespace crumb::graph {
namespace {

/// Moves one node from the version it has to another. Says why where that cannot be.
class NodeMover {
 public:
  NodeMover(Graph& graph, std::int64_t target) : graph_(graph), to_(target) {}

  std::optional<std::string> move(Node& node) {
    const std::int64_t from = node.version;
    const std::optional<std::int64_t> then = since_version(node.op, from), now = since_version(node.op, to_);
    if (!then) return "is no operator of operator set " + std::to_string(from);
    if (!now && !(node.op == "Upsample" && to_ >= 10)) {
      return "does not exist in operator set " + std::to_string(to_);
    }
    if (then != now) {
      if (auto why = rewrite(node, from)) return why;
    }
    node.version = to_;
    return {};
  }

 private:
  using Why = std::optional<std::string>;

  bool crosses(std::int64_t from, std::int64_t version) const { return (from < version) != (to_ < version); }
  bool up(std::int64_t from, std::int64_t version) const { return from < version && to_ >= version; }

  Why rewrite(Node& node, std::int64_t from) {
    const std::string& op = node.op;
    if (from < 7 && node.int_or("broadcast", 0) != 0) {
      return "broadcasts as before operator set 7 (attribute 'broadcast')";
    }
    node.attributes.erase("broadcast");
    node.attributes.erase("consumed_inputs");
    if (op == "Squeeze" || op == "Unsqueeze" || op == "ReduceSum") return axes_at(node, from, 13);
    if (op.starts_with("Reduce")) return axes_at(node, from, 18);
    if (op == "Clip") return clip(node, from);
    if (op == "Dropout") return dropout(node, from);
    if (op == "Slice") return slice(node, from);
    if (op == "Split") return split(node, from);
    if (op == "Pad") return pad(node, from);
    if (op == "TopK") return top_k(node, from);
    if (op == "Softmax" || op == "LogSoftmax" || op == "Hardmax") return softmax(node, from);
    if (op == "BatchNormalization") return batch_norm(node, from);
    if (op == "Upsample") return upsample(node, from);
    if (op == "Resize") return resize(node, from);
    if (op == "Reshape") return reshape(node, from);
    if (op == "Gelu" || op == "GroupNormalization" || op == "GRU" || op == "Attention")
      return changed(node, from);
    return attributes_fit(node);
  }

  Why changed(const Node&, std::int64_t from) const {
    return "means something else in operator set " + std::to_string(to_) + " than in " + std::to_string(from);
  }

  /// Operators whose versions differ by types and by attributes that say when they are used: fit where the target
  /// knows every attribute and as many inputs.
  Why attributes_fit(const Node& node) const {
    for (const auto& [name, value] : node.attributes) {
      if (!schema_has_attribute(node.op, to_, name)) {
        return "has the attribute '" + name + "', which operator set " + std::to_string(to_) +
               " does not know";
      }
    }
    if (node.inputs.size() > most_inputs(node.op, to_)) {
      return "has " + std::to_string(node.inputs.size()) + " inputs, more than operator set " +
             std::to_string(to_) + " knows";
    }
    return {};
  }

  std::string constant(const Node& node, const char* what, Tensor tensor) {
    return add_constant(graph_, node.name + "_" + what, std::move(tensor));
  }
  std::string ints(const Node& node, const char* what, const std::vector<std::int64_t>& values) {
    return constant(node, what, Tensor::ints({static_cast<std::int64_t>(values.size())}, values));
  }

  void set_input(Node& node, std::size_t i, std::string value) {
    if (node.inputs.size() <= i) node.inputs.resize(i + 1);
    node.inputs[i] = std::move(value);
  }

  /// An input that must be a constant, as integers.
  std::optional<std::vector<std::int64_t>> ints_of(const Node& node, std::size_t i) const {
    const Tensor* tensor = constant_input(graph_, node, i);
    return tensor && is_integer(tensor->type()) ? std::optional(tensor->to_ints()) : std::nullopt;
  }

  static Why computed(const char* what) {
    return std::string("computes its ") + what + ", which that version fixes";
  }

  void attribute_to_input(Node& node, const char* name, std::size_t i) {
    if (!node.has(name)) return;
    set_input(node, i, ints(node, name, node.ints_or(name, {})));
    node.attributes.erase(name);
  }

  Why input_to_attribute(Node& node, const char* name, std::size_t i) {
    if (node.has_input(i)) {
      const auto values = ints_of(node, i);
      if (!values) return computed(name);
      node.attributes[name] = *values;
    }
    node.inputs.resize(std::min(node.inputs.size(), i));
    return {};
  }

  Why axes_at(Node& node, std::int64_t from, std::int64_t version) {
    if (up(from, version)) {
      attribute_to_input(node, "axes", 1);
    } else if (crosses(from, version)) {
      if (node.int_or("noop_with_empty_axes", 0) != 0 && !node.has_input(1)) {
        return "reduces nothing where no axes are given, which that version cannot say";
      }
      node.attributes.erase("noop_with_empty_axes");
      if (auto why = input_to_attribute(node, "axes", 1)) return why;
    }
    return attributes_fit(node);
  }

  Why clip(Node& node, std::int64_t from) {
    if (up(from, 11)) {
      constexpr float kMost = std::numeric_limits<float>::max();
      const float low = node.float_or("min", -kMost), high = node.float_or("max", kMost);
      if (node.has("min")) set_input(node, 1, constant(node, "min", Tensor::scalar(low)));
      if (node.has("max")) set_input(node, 2, constant(node, "max", Tensor::scalar(high)));
      node.attributes.clear();
    } else if (crosses(from, 11)) {
      for (const std::size_t i : {1, 2}) {
        if (!node.has_input(i)) continue;
        const Tensor* bound = constant_input(graph_, node, i);
        if (!bound || bound->type() != ElementType::kFloat) return computed("bounds");
        node.attributes[i == 1 ? "min" : "max"] = bound->to_floats().at(0);
      }
      node.inputs.resize(1);
    }
    return {};
  }

  Why dropout(Node& node, std::int64_t from) {
    if (!crosses(from, 12)) return {};
    if (node.outputs.size() > 1 && node.has_output(1)) return "has a mask, whose type differs";
    if (up(from, 12)) {
      if (node.has("ratio"))
        set_input(node, 1, constant(node, "ratio", Tensor::scalar(node.float_or("ratio", 0.5f))));
      node.attributes.clear();
      return {};
    }
    if (node.has_input(2)) return "may drop (training_mode), which that version decides otherwise";
    node.inputs.resize(1);
    node.attributes.clear();
    return {};
  }

  Why slice(Node& node, std::int64_t from) {
    if (up(from, 10)) {
      attribute_to_input(node, "starts", 1);
      attribute_to_input(node, "ends", 2);
      attribute_to_input(node, "axes", 3);
    } else if (crosses(from, 10)) {
      if (const auto steps = ints_of(node, 4); node.has_input(4)) {
        if (!steps || std::ranges::any_of(*steps, [](std::int64_t step) { return step != 1; })) {
          return "has steps, which that version does not know";
        }
      }
      for (std::size_t i = 4; i-- > 1;) {
        constexpr std::array kNames = {"", "starts", "ends", "axes"};
        if (auto why = input_to_attribute(node, kNames[i], i)) return why;
      }
    }
    return {};
  }

  Why split(Node& node, std::int64_t from) {
    if (up(from, 13)) attribute_to_input(node, "split", 1);
    if (up(from, 18) && !node.has_input(1)) {
      node.attributes["num_outputs"] = static_cast<std::int64_t>(node.outputs.size());
    }
    if (from >= 18 && to_ < 18 && node.has("num_outputs")) {
      const Value* value = node.has_input(0) ? graph_.find(node.inputs[0]) : nullptr;
      const auto rank = value && value->shape ? static_cast<std::int64_t>(value->shape->size()) : 0;
      std::int64_t axis = node.int_or("axis", 0);
      axis = axis < 0 ? axis + rank : axis;
      const auto parts = static_cast<std::int64_t>(node.outputs.size());
      if (axis < 0 || axis >= rank || !(*value->shape)[static_cast<std::size_t>(axis)].known() ||
          (*value->shape)[static_cast<std::size_t>(axis)].size % parts != 0) {
        return "splits into parts that may differ, which that version does not do";
      }
      node.attributes.erase("num_outputs");
    }
    if (from >= 13 && to_ < 13) return input_to_attribute(node, "split", 1);
    return {};
  }

  Why pad(Node& node, std::int64_t from) {
    if (up(from, 11)) {
      if (node.has("paddings")) node.attributes["pads"] = node.ints_or("paddings", {});
      node.attributes.erase("paddings");
      attribute_to_input(node, "pads", 1);
      if (node.has("value"))
        set_input(node, 2, constant(node, "value", Tensor::scalar(node.float_or("value", 0))));
      node.attributes.erase("value");
    } else if (crosses(from, 11)) {
      return "has its pads as an input, which that version does not take";
    }
    if (from >= 18 && to_ < 18 && node.has_input(3))
      return "pads chosen axes, which that version does not know";
    if (from >= 19 && to_ < 19 && node.text_or("mode", "constant") == "wrap") {
      return "pads in mode 'wrap', which that version does not know";
    }
    return {};
  }

  Why top_k(Node& node, std::int64_t from) {
    if (up(from, 10)) {
      set_input(node, 1, ints(node, "k", {node.int_or("k", 1)}));
      node.attributes.erase("k");
    } else if (crosses(from, 10)) {
      return "has k as an input, which that version does not take";
    }
    return attributes_fit(node);
  }

  /// Before 13 the input counts as a matrix: the axes before `axis`, and the others. The same where `axis` is the
  /// last one, or only sizes of 1 follow.
  Why softmax(Node& node, std::int64_t from) {
    if (!crosses(from, 13)) return {};
    const Value* value = node.has_input(0) ? graph_.find(node.inputs[0]) : nullptr;
    if (!value || !value->shape)
      return "has an input of unknown shape; its axis means another thing in that version";
    const auto rank = static_cast<std::int64_t>(value->shape->size());
    std::int64_t axis = node.int_or("axis", from < 13 ? 1 : -1);
    if (axis < 0) axis += rank;
    const std::int64_t begin = std::clamp(axis + 1, std::int64_t{0}, rank);
    const bool same = std::all_of(value->shape->begin() + begin, value->shape->end(),
                                  [](const Dim& dim) { return dim.size == 1; });
    if (!same) return "works on several axes at once in operator sets before 13, and on one from then on";
    node.attributes["axis"] = axis;
    return {};
  }

  Why batch_norm(Node& node, std::int64_t from) {
    if (from < 7 && node.int_or("is_test", 0) == 0) return "is in training mode";
    if (node.int_or("spatial", 1) != 1) return "has statistics of every element (spatial 0)";
    if (node.int_or("training_mode", 0) != 0 || node.outputs.size() > 1) return "is in training mode";
    for (const char* name : {"is_test", "spatial"}) node.attributes.erase(name);
    if (to_ < 14) node.attributes.erase("training_mode");
    if (to_ < 7) node.attributes["is_test"] = std::int64_t{1};
    return {};
  }

  Why upsample(Node& node, std::int64_t from) {
    if (to_ < 11) return from < 9 && to_ >= 9 ? Why("has its scales as an attribute") : Why();
    if (from < 9) {
      const auto scales = node.floats_or("scales", {});
      set_input(node, 1,
                constant(node, "scales", Tensor::floats({static_cast<std::int64_t>(scales.size())}, scales)));
      node.attributes.erase("scales");
    }
    node.op = "Resize";
    if (node.text_or("mode", "nearest") == "bilinear") node.attributes["mode"] = std::string("linear");
    node.inputs = {node.inputs[0], "", node.inputs[1]};
    return old_sampling(node);
  }

  /// What Upsample and Resize of operator set 10 do, said in the words of 11.
  Why old_sampling(Node& node) {
    node.attributes["coordinate_transformation_mode"] = std::string("asymmetric");
    node.attributes["nearest_mode"] = std::string("floor");
    if (to_ < 13) set_input(node, 1, constant(node, "roi", Tensor::floats({0}, {})));
    return {};
  }

  Why resize(Node& node, std::int64_t from) {
    if (up(from, 11)) {
      node.inputs = {node.inputs[0], "", node.inputs.at(1)};
      return old_sampling(node);
    }
    if (crosses(from, 11)) return "cannot be said in the Resize of operator set 10";
    if (from >= 13 && to_ < 13 && !node.has_input(1)) {
      set_input(node, 1, constant(node, "roi", Tensor::floats({0}, {})));
    }
    if (from >= 18 && to_ < 18) {
      if (node.int_or("antialias", 0) != 0) return "has antialias, which that version does not know";
      node.attributes.erase("antialias");
      if (node.text_or("keep_aspect_ratio_policy", "stretch") != "stretch" || node.has("axes")) {
        return "has an aspect ratio policy or axes, which that version does not know";
      }
      node.attributes.erase("keep_aspect_ratio_policy");
    }
    return attributes_fit(node);
  }

  Why reshape(Node& node, std::int64_t from) {
    if (up(from, 5)) attribute_to_input(node, "shape", 1);
    if (to_ < 14) {
      if (node.int_or("allowzero", 0) != 0) return "has allowzero, which that version does not know";
      node.attributes.erase("allowzero");
    }
    if (to_ < 5) return input_to_attribute(node, "shape", 1);
    return {};
  }

  Graph& graph_;
  const std::int64_t to_;
};

}  // namespace

Graph with_opset(Graph graph, std::int64_t target) {
  if (target < 1 || target > newest_opset()) {
    throw usage_error("there is no operator set " + std::to_string(target) + " of ONNX; it has 1 to " +
                      std::to_string(newest_opset()));
  }
  graph = infer_shapes(std::move(graph));
  std::string misfits;
  std::vector<Node> nodes = std::exchange(graph.nodes, {});
  NodeMover mover(graph, target);
  for (Node& node : nodes) {
    if (node.domain != kOnnxDomain) continue;
    if (const auto why = mover.move(node))
      misfits += (misfits.empty() ? "" : "; ") + text_of(node) + " " + *why;
  }
  if (!misfits.empty()) {
    throw Error("the graph cannot be written in operator set " + std::to_string(target) + ": " + misfits);
  }
  graph.nodes = std::move(nodes);
  graph.opsets[std::string(kOnnxDomain)] = target;
  return tidy(infer_shapes(std::move(graph)));
}

std::int64_t least_opset(const Graph& graph, std::int64_t floor) {
  for (std::int64_t target = floor; target <= newest_opset(); ++target) {
    try {
      with_opset(graph, target);
      return target;
    } catch (const Error&) {
      if (target == newest_opset()) throw;
    }
  }
  return std::max(floor, graph.opset());
}

}  // namespace crumb::graph

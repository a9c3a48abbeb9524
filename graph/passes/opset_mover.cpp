#include "graph/passes/opset_mover.h"

#include <algorithm>
#include <array>

#include "graph/edit.h"
#include "graph/onnx/schemas.h"
#include "graph/operator_traits.h"

namespace crumb::graph {
namespace {

std::string computed(const char* what) {
  return std::string("computes its ") + what + ", which that version fixes";
}

/// Returns one number as a constant of a float type; nothing for other types.
std::optional<Tensor> scalar_of(ElementType type, float value) {
  if (type == ElementType::kFloat || type == ElementType::kUnknown) return Tensor::scalar(value);
  if (type != ElementType::kDouble) return {};
  const double wide = value;
  const auto bytes = std::as_bytes(std::span(&wide, 1));
  return Tensor(type, {}, {bytes.begin(), bytes.end()});
}

}  // namespace

NodeMover::NodeMover(Graph& graph, std::int64_t target)
    : graph_(graph), to_(target), nodes_(std::exchange(graph.nodes, {})) {
  for (const Node& node : nodes_) {
    names_.insert(node.name);
    for (const std::string& value : node.outputs) {
      if (!value.empty()) graph_.values[value];  // so that no new value takes the name
    }
  }
}

std::string NodeMover::go() {
  std::string misfits;
  for (Node& node : nodes_) {
    if (node.domain == kOnnxDomain) {
      if (const Why why = move(node)) misfits += (misfits.empty() ? "" : "; ") + text_of(node) + " " + *why;
    }
    made_.push_back(std::move(node));
    made_.insert(made_.end(), std::make_move_iterator(behind_.begin()),
                 std::make_move_iterator(behind_.end()));
    behind_.clear();
  }
  graph_.nodes = std::move(made_);
  return misfits;
}

NodeMover::Why NodeMover::move(Node& node) {
  const std::int64_t from = node.version;
  const auto then = since_version(node.op, from), now = since_version(node.op, to_);
  if (!then) return "is no operator of operator set " + std::to_string(from);
  if (!now && node.op != "Upsample") {
    return "does not exist in operator set " + std::to_string(to_) + " and has no definition by simpler ones";
  }
  if (then != now) {
    if (is_opaque(node)) return "has a subgraph, whose nodes are not looked at";
    if (auto why = rewrite(node, from)) return why;
    for (auto fits : {attributes_fit(node, from), inputs_fit(node), types_fit(node)}) {
      if (fits) return fits;
    }
  }
  node.version = to_;
  return {};
}

NodeMover::Why NodeMover::rewrite(Node& node, std::int64_t from) {
  const std::string& op = node.op;
  if (from < 7 && node.int_or("broadcast", 0) != 0) {
    return "broadcasts as before operator set 7 (attribute 'broadcast')";
  }
  if (!node.has_output(0) && !is_any(node, trait::kRecurrent)) return "has no output";
  if (!node.has_input(0) && least_inputs(op, from) > 0) return "has no input";
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
  if (op == "Reshape") return reshape(node, from);
  if (op == "Shape") return shape(node, from);
  if (op == "Constant") return constant_value(node, from);
  if (op == "Softmax" || op == "LogSoftmax" || op == "Hardmax") return softmax(node, from);
  if (op == "BatchNormalization") return batch_norm(node, from);
  if (op == "Upsample") return upsample(node, from);
  if (op == "Resize") return resize(node, from);
  if (op == "ScatterElements" || op == "ScatterND") return scatter(node, from);
  if (op == "RoiAlign") return roi_align(node, from);
  if (op == "GridSample") return grid_sample(node, from);
  if (op == "QuantizeLinear" || op == "DequantizeLinear") return quantize_linear(node, from);
  if (op == "GroupNormalization" || op == "Attention" || op == "DFT") {
    return "means something else in operator set " + std::to_string(to_) + " than in " + std::to_string(from);
  }
  return {};
}

NodeMover::Why NodeMover::attributes_fit(Node& node, std::int64_t from) const {
  for (auto entry = node.attributes.begin(); entry != node.attributes.end();) {
    const auto& [name, value] = *entry;
    if (schema_has_attribute(node.op, to_, name)) {
      ++entry;
    } else if (default_attribute(node.op, from, name) == value) {
      entry = node.attributes.erase(entry);  // the target's default says the same
    } else {
      return "has the attribute '" + name + "', which operator set " + std::to_string(to_) + " does not know";
    }
  }
  return {};
}

NodeMover::Why NodeMover::inputs_fit(const Node& node) const {
  std::size_t count = node.inputs.size();
  while (count > 0 && node.inputs[count - 1].empty()) --count;
  const std::size_t most = most_inputs(node.op, to_), least = least_inputs(node.op, to_);
  if (count >= least && count <= most) return {};
  return "has " + std::to_string(count) + " inputs, and operator set " + std::to_string(to_) +
         (count > most ? " knows no more than " + std::to_string(most) : " needs " + std::to_string(least));
}

NodeMover::Why NodeMover::types_fit(const Node& node) const {
  const auto check = [&](const std::vector<std::string>& values, Side side) -> Why {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Tensor* tensor = graph_.constant(values[i]);
      const Value* value = graph_.find(values[i]);
      const ElementType type = tensor ? tensor->type() : value ? value->type : ElementType::kUnknown;
      if (values[i].empty() || schema_takes(node.op, to_, side, i, type)) continue;
      return (side == Side::kInput ? "takes " : "makes ") + std::string(name_of(type)) +
             ", which operator set " + std::to_string(to_) + " does not";
    }
    return {};
  };
  if (auto why = check(node.inputs, Side::kInput)) return why;
  return check(node.outputs, Side::kOutput);
}

std::string NodeMover::constant(const Node& node, const char* what, Tensor tensor) {
  return add_constant(graph_, node.name + "_" + what, std::move(tensor));
}

std::string NodeMover::ints(const Node& node, const char* what, const Ints& values) {
  return constant(node, what, Tensor::ints({static_cast<std::int64_t>(values.size())}, values));
}

void NodeMover::set_input(Node& node, std::size_t i, std::string value) {
  if (node.inputs.size() <= i) node.inputs.resize(i + 1);
  node.inputs[i] = std::move(value);
}

std::optional<NodeMover::Ints> NodeMover::ints_of(const Node& node, std::size_t i) const {
  const Tensor* tensor = constant_input(graph_, node, i);
  return tensor && is_integer(tensor->type()) ? std::optional(tensor->to_ints()) : std::nullopt;
}

void NodeMover::attribute_to_input(Node& node, const char* name, std::size_t i) {
  if (!node.has(name)) return;
  set_input(node, i, ints(node, name, node.ints_or(name, {})));
  node.attributes.erase(name);
}

NodeMover::Why NodeMover::input_to_attribute(Node& node, const char* name, std::size_t i) {
  if (node.has_input(i)) {
    const auto values = ints_of(node, i);
    if (!values) return computed(name);
    node.attributes[name] = *values;
  }
  node.inputs.resize(std::min(node.inputs.size(), i));
  return {};
}

const Shape* NodeMover::shape_of(const Node& node, std::size_t i) const {
  const Value* value = node.has_input(i) ? graph_.find(node.inputs[i]) : nullptr;
  return value && value->shape ? &*value->shape : nullptr;
}

std::string NodeMover::name_for(const Node& node, const char* op) {
  std::string name = node.name + "_" + op;
  for (int i = 1; !names_.insert(name).second; ++i) name = node.name + "_" + op + "_" + std::to_string(i);
  return name;
}

std::string NodeMover::before(const Node& node, const char* op, std::vector<std::string> inputs,
                              std::map<std::string, Attribute> attributes) {
  const std::string output = add_value(graph_, node.name + "_" + op + "_out", {});
  made_.push_back({.name = name_for(node, op),
                   .op = op,
                   .version = to_,
                   .inputs = std::move(inputs),
                   .outputs = {output},
                   .attributes = std::move(attributes)});
  return output;
}

std::string NodeMover::divert(Node& node, const char* what) {
  node.outputs.at(0) = add_value(graph_, node.outputs.at(0) + "_" + what, {});
  return node.outputs[0];
}

void NodeMover::after(const Node& node, const char* op, std::vector<std::string> inputs, std::string output,
                      std::map<std::string, Attribute> attributes) {
  behind_.push_back({.name = name_for(node, op),
                     .op = op,
                     .version = to_,
                     .inputs = std::move(inputs),
                     .outputs = {std::move(output)},
                     .attributes = std::move(attributes)});
}

NodeMover::Why NodeMover::axes_at(Node& node, std::int64_t from, std::int64_t version) {
  if (up(from, version)) {
    if (node.ints_or("axes", {}).empty()) node.attributes.erase("axes");
    attribute_to_input(node, "axes", 1);
    return {};
  }
  if (!down(from, version)) return {};
  const auto axes = ints_of(node, 1);
  const bool all = !node.has_input(1) || (axes && axes->empty());
  if (node.op.starts_with("Reduce") && all && node.int_or("noop_with_empty_axes", 0) != 0) {
    constexpr std::array kPlain = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"};
    if (std::ranges::find(kPlain, node.op) == kPlain.end())
      return "reduces no axis, which that version cannot say";
    node.op = "Identity";
    node.attributes.clear();
    node.inputs.resize(1);
    return {};
  }
  node.attributes.erase("noop_with_empty_axes");
  if (node.op.starts_with("Reduce") && all) {
    node.inputs.resize(1);
    return {};
  }
  return input_to_attribute(node, "axes", 1);
}

NodeMover::Why NodeMover::clip(Node& node, std::int64_t from) {
  if (up(from, 11)) {
    const Value* known = node.has_input(0) ? graph_.find(node.inputs[0]) : nullptr;
    std::size_t i = 0;
    for (const char* name : {"min", "max"}) {
      ++i;
      if (!node.has(name)) continue;
      auto bound = scalar_of(known ? known->type : ElementType::kFloat, node.float_or(name, 0));
      if (!bound) return "has bounds for elements that are neither float32 nor float64";
      set_input(node, i, constant(node, name, std::move(*bound)));
      node.attributes.erase(name);
    }
  } else if (down(from, 11)) {
    for (const std::size_t i : {1, 2}) {
      if (!node.has_input(i)) continue;
      const Tensor* bound = constant_input(graph_, node, i);
      if (!bound || bound->type() != ElementType::kFloat || bound->size() != 1) return computed("bounds");
      node.attributes[i == 1 ? "min" : "max"] = bound->to_floats().front();
    }
    node.inputs.resize(1);
  }
  return {};
}

NodeMover::Why NodeMover::dropout(Node& node, std::int64_t from) {
  if (from < 7 && node.int_or("is_test", 0) == 0) return "is in training mode";
  node.attributes.erase("is_test");
  if (to_ < 7) node.attributes["is_test"] = std::int64_t{1};
  if (!crosses(from, 12)) return {};
  if (node.has_output(1)) return "has a mask, whose type differs";
  if (up(from, 12)) {
    if (node.has("ratio"))
      set_input(node, 1, constant(node, "ratio", Tensor::scalar(node.float_or("ratio", 0.5F))));
    node.attributes.erase("ratio");
    return {};
  }
  if (node.has_input(2)) {
    const auto* training = constant_input(graph_, node, 2);
    if (!training || training->type() != ElementType::kBool || training->size() != 1 ||
        training->to_ints().front() != 0) {
      return "may drop (training_mode), which that version decides otherwise";
    }
  }
  node.inputs.resize(1);
  node.attributes.erase("seed");
  return {};
}

NodeMover::Why NodeMover::slice(Node& node, std::int64_t from) {
  if (up(from, 10)) {
    attribute_to_input(node, "starts", 1);
    attribute_to_input(node, "ends", 2);
    attribute_to_input(node, "axes", 3);
  } else if (down(from, 10)) {
    if (const auto steps = ints_of(node, 4); node.has_input(4)) {
      if (!steps || std::ranges::any_of(*steps, [](std::int64_t step) { return step != 1; })) {
        return "has steps, which that version does not know";
      }
    }
    node.inputs.resize(std::min<std::size_t>(node.inputs.size(), 4));
    constexpr std::array kNames = {"", "starts", "ends", "axes"};
    for (std::size_t i = 4; i-- > 1;) {
      if (auto why = input_to_attribute(node, kNames[i], i)) return why;
    }
  }
  return {};
}

NodeMover::Why NodeMover::split(Node& node, std::int64_t from) {
  if (up(from, 13)) attribute_to_input(node, "split", 1);
  if (up(from, 18) && !node.has_input(1)) {
    node.attributes["num_outputs"] = static_cast<std::int64_t>(node.outputs.size());
  }
  if (down(from, 18) && !node.has_input(1)) {
    // In set 18 all parts but the last are equal, before it all are.
    const Shape* known = shape_of(node, 0);
    const auto rank = known ? static_cast<std::int64_t>(known->size()) : 0;
    std::int64_t axis = node.int_or("axis", 0);
    axis = axis < 0 ? axis + rank : axis;
    if (axis < 0 || axis >= rank || !(*known)[static_cast<std::size_t>(axis)].known()) {
      return "splits an axis of unknown size into equal parts, which that version must know";
    }
    const std::int64_t size = (*known)[static_cast<std::size_t>(axis)].size;
    const auto parts = static_cast<std::int64_t>(node.outputs.size());
    const std::int64_t each = parts > 0 ? size / parts + (size % parts != 0 ? 1 : 0) : 0;
    if (parts == 0 || size - each * (parts - 1) < 0) return "splits an axis into more parts than it has";
    Ints sizes(node.outputs.size(), each);
    sizes.back() = size - each * (parts - 1);
    if (sizes.back() != each) set_input(node, 1, ints(node, "sizes", sizes));
  }
  if (down(from, 18)) node.attributes.erase("num_outputs");
  return down(from, 13) ? input_to_attribute(node, "split", 1) : Why();
}

NodeMover::Why NodeMover::pad(Node& node, std::int64_t from) {
  if (up(from, 11)) {
    if (node.has("paddings")) node.attributes["pads"] = node.ints_or("paddings", {});
    node.attributes.erase("paddings");
    attribute_to_input(node, "pads", 1);
    if (node.has("value")) {
      const Value* known = node.has_input(0) ? graph_.find(node.inputs[0]) : nullptr;
      auto value = scalar_of(known ? known->type : ElementType::kFloat, node.float_or("value", 0));
      if (!value) return "has a value for elements that are neither float32 nor float64";
      set_input(node, 2, constant(node, "value", std::move(*value)));
    }
    node.attributes.erase("value");
  } else if (down(from, 11)) {
    return "has its pads as an input, which that version does not take";
  }
  if (down(from, 19) && node.text_or("mode", "constant") == "wrap") {
    return "pads in mode 'wrap', which that version does not know";
  }
  if (down(from, 18) && node.has_input(3)) {
    const auto pads = ints_of(node, 1), axes = ints_of(node, 3);
    const Shape* known = shape_of(node, 0);
    if (!pads || !axes || !known || pads->size() != 2 * axes->size()) {
      return "pads axes that are computed, or of an unknown shape";
    }
    const std::size_t rank = known->size();
    Ints all(2 * rank, 0);
    for (std::size_t i = 0; i < axes->size(); ++i) {
      const std::int64_t axis = (*axes)[i] < 0 ? (*axes)[i] + static_cast<std::int64_t>(rank) : (*axes)[i];
      if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) return "pads an axis that is not there";
      all[static_cast<std::size_t>(axis)] = (*pads)[i];
      all[static_cast<std::size_t>(axis) + rank] = (*pads)[i + axes->size()];
    }
    set_input(node, 1, ints(node, "pads", all));
    node.inputs.resize(node.has_input(2) ? 3 : 2);
  }
  return {};
}

NodeMover::Why NodeMover::top_k(Node& node, std::int64_t from) {
  if (up(from, 10)) {
    set_input(node, 1, ints(node, "k", {node.int_or("k", 1)}));
    node.attributes.erase("k");
  } else if (down(from, 10)) {
    return "has k as an input, which that version does not take";
  }
  return {};
}

NodeMover::Why NodeMover::reshape(Node& node, std::int64_t from) {
  if (up(from, 5)) attribute_to_input(node, "shape", 1);
  if (down(from, 14) && node.int_or("allowzero", 0) != 0) {
    const auto target = ints_of(node, 1);
    if (!target || std::ranges::find(*target, 0) != target->end()) {
      return "has allowzero, which that version does not know";
    }
    node.attributes.erase("allowzero");  // without a 0 it has no effect
  }
  return down(from, 5) ? input_to_attribute(node, "shape", 1) : Why();
}

NodeMover::Why NodeMover::shape(Node& node, std::int64_t from) {
  if (!down(from, 15)) return {};
  const std::int64_t start = node.int_or("start", 0);
  const bool has_end = node.has("end");
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  const std::int64_t end = node.int_or("end", kEnd);
  node.attributes.erase("start");
  node.attributes.erase("end");
  if (start == 0 && !has_end) return {};
  const std::string output = node.outputs.at(0), whole = divert(node, "whole");
  after(node, "Slice",
        {whole, ints(node, "start", {start}), ints(node, "end", {end}), ints(node, "axis", {0})}, output);
  return {};
}

NodeMover::Why NodeMover::constant_value(Node& node, std::int64_t from) {
  if (!down(from, 12) || node.has("value")) return {};
  auto tensor = constant_of(node);
  if (!tensor) return "has no value that a graph can hold";
  node.attributes = {{"value", std::move(*tensor)}};
  return {};
}

}  // namespace crumb::graph

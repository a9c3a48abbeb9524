#include "analysis/draw/picture.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/text/ascii_case.h"
#include "graph/facts/constant_values.h"
#include "graph/facts/infer_datatypes.h"
#include "graph/operator_traits.h"

namespace crumb::analysis {
namespace {

constexpr std::size_t kMostParameters = 4;
constexpr std::size_t kNone = ~std::size_t{0};

bool is_container(const graph::Node& node) {
  return node.is("QuantizeLinear") || node.is("DequantizeLinear");
}

class Painter {
 public:
  explicit Painter(const graph::Graph& graph)
      : graph_(graph),
        constants_(graph),
        links_(graph),
        types_(infer_data_types(graph, constants_, graph::TypeRules::kExact)) {}

  Picture run() {
    hide_shape_arithmetic();
    for (const std::string& name : graph_.inputs) {
      Box box{.kind = Box::Kind::kInput};
      box.steps.push_back({.op = "input", .name = name});
      start(name, add_box(std::move(box)));
    }
    for (const graph::Node& node : graph_.nodes) {
      if (!is_hidden(node)) draw(node);
    }
    for (const std::string& name : graph_.outputs) {
      Box box{.kind = Box::Kind::kOutput};
      box.steps.push_back({.op = "output", .name = name});
      const std::size_t made = add_box(std::move(box));
      if (const auto found = wire_of_.find(name); found != wire_of_.end()) {
        picture_.wires[found->second].to.push_back(made);
      }
    }
    return finished();
  }

 private:
  bool is_fixed(const std::string& value) const {
    return constants_.is_constant(value) || hidden_.contains(value);
  }

  bool is_hidden(const graph::Node& node) const {
    return std::ranges::all_of(node.outputs, [&](const std::string& v) { return v.empty() || is_fixed(v); });
  }

  /// What only shapes and constants decide over, unless the graph gives it away.
  void hide_shape_arithmetic() {
    std::set<std::string> hidden;
    for (const graph::Node& node : graph_.nodes) {
      const bool fixed = node.is("Shape") || node.is("Size") ||
                         (!node.inputs.empty() && std::ranges::all_of(node.inputs, [&](const std::string& v) {
                           return v.empty() || constants_.is_constant(v) || hidden.contains(v);
                         }));
      if (fixed) hidden.insert(node.outputs.begin(), node.outputs.end());
    }
    hidden.erase("");
    const bool given_away = std::ranges::any_of(graph_.outputs, [&](const std::string& v) {
      return hidden.contains(v) && !constants_.is_constant(v);
    });
    if (!given_away) hidden_ = std::move(hidden);
  }

  std::string shape_text(const std::string& value) const {
    if (const graph::Tensor* constant = graph_.constant(value)) return graph::text_of(constant->shape());
    const graph::Value* known = graph_.find(value);
    return known && known->shape ? text_of(*known->shape) : "[...]";
  }

  std::size_t add_box(Box box) {
    picture_.boxes.push_back(std::move(box));
    return picture_.boxes.size() - 1;
  }

  void start(const std::string& value, std::size_t box) {
    wire_of_[value] = picture_.wires.size();
    picture_.wires.push_back({.from = box, .to = {}, .shape = shape_text(value), .quantizers = {}});
  }

  QuantizerLabel label_of(const graph::Node& node, const char* verb) const {
    const auto found = types_.find(node.outputs[0]);
    const graph::DataType type = found == types_.end() ? graph::DataType() : found->second.type;
    QuantizerLabel label{.text = verb};
    if (node.op == "FloatQuant" || type.kind() == graph::DataType::Kind::kFloat) {
      label.is_float = true;
      label.bits = type.bits();
      label.text += type == graph::DataType() ? " ?" : " " + lower_case(type.name());
      return label;
    }
    if (type.is_float()) {
      label.text += " ?";
      return label;
    }
    label.bits = type.bits();
    const bool bipolar = node.op == "BipolarQuant" || (label.bits == 1 && node.int_or("signed", 0) != 0);
    const bool has_sign = node.has("signed");
    const bool is_signed =
        has_sign ? node.int_or("signed", 1) != 0 : !found->second.levels || found->second.levels->is_signed;
    label.text += bipolar ? " bipolar" : (is_signed ? " int" : " uint") + std::to_string(label.bits);
    if (node.has_input(1)) {
      if (const auto scale = constants_.find(node.inputs[1]); scale && scale->values.size() > 1) {
        label.text += " per channel";
      }
    }
    return label;
  }

  /// The quantizer that made a constant, through what only moves it.
  std::string quantizer_text(std::string value) const {
    for (int depth = 0; depth < 32; ++depth) {
      const std::size_t producer = links_.producer(value);
      if (producer == graph::Links::kNone) return "";
      const graph::Node& node = graph_.nodes[producer];
      if (is_quantizer(node)) return " " + label_of(node, node.op.c_str()).text;
      if (node.is("DequantizeLinear")) return " " + label_of(node, "QDQ").text;
      if (!node.has_input(0)) return "";
      value = node.inputs[0];
    }
    return "";
  }

  /// One line for each constant with an axis; equal ones share it. Integers that steer are left out.
  std::vector<std::string> parameters_of(const graph::Node& node) const {
    std::vector<std::pair<std::string, int>> counted;
    for (const std::string& value : node.inputs) {
      if (value.empty() || !constants_.is_constant(value)) continue;
      const graph::Value* known = graph_.find(value);
      const graph::Tensor* tensor = graph_.constant(value);
      const graph::ElementType type = tensor  ? tensor->type()
                                      : known ? known->type
                                              : graph::ElementType::kUnknown;
      const std::string shape = shape_text(value);
      const std::string quantizer = quantizer_text(value);
      if (shape == "[]" && quantizer.empty()) continue;
      if ((type == graph::ElementType::kInt64 || type == graph::ElementType::kBool) && quantizer.empty())
        continue;
      const auto annotated =
          known ? known->annotations.find("finn_datatype") : decltype(known->annotations.end())();
      std::string text = shape + quantizer;
      if (quantizer.empty() && known && annotated != known->annotations.end()) {
        text += " " + annotated->second;
      } else if (quantizer.empty() && type != graph::ElementType::kFloat &&
                 type != graph::ElementType::kUnknown) {
        text += " " + std::string(name_of(type));
      }
      const auto same = std::ranges::find(counted, text, &std::pair<std::string, int>::first);
      if (same == counted.end()) {
        counted.emplace_back(text, 1);
      } else {
        ++same->second;
      }
    }
    std::vector<std::string> lines;
    for (const auto& [text, count] : counted) {
      if (lines.size() == kMostParameters) {
        lines.push_back("...");
        break;
      }
      lines.push_back(count == 1 ? text : std::to_string(count) + " x " + text);
    }
    return lines;
  }

  std::vector<std::string> moving_inputs(const graph::Node& node) const {
    std::vector<std::string> values;
    for (const std::string& value : node.inputs) {
      if (!value.empty() && !is_fixed(value) && wire_of_.contains(value)) values.push_back(value);
    }
    return values;
  }

  /// Whether the node is a label of the wire that goes through it.
  bool is_on_wire(const graph::Node& node, const std::vector<std::string>& moving) const {
    if (moving.size() != 1 || moving[0] != node.inputs[0]) return false;
    if (is_quantizer(node) || is_container(node)) return true;
    if (!node.is("Clip")) return false;
    const std::size_t producer = links_.producer(node.inputs[0]);
    return producer != graph::Links::kNone && graph_.nodes[producer].is("QuantizeLinear");
  }

  void draw(const graph::Node& node) {
    const auto moving = moving_inputs(node);
    if (is_on_wire(node, moving)) return put_on_wire(node, moving[0]);
    Step step{.op = node.op,
              .name = node.name,
              .parameters = parameters_of(node),
              .multiplies = !graph::traits_of(node).products.empty()};
    if (!node.outputs.empty() && !node.outputs[0].empty()) {
      step.shape = shape_text(node.outputs[0]);
      const bool kept =
          std::ranges::any_of(moving, [&](const std::string& v) { return shape_text(v) == step.shape; });
      if (kept) step.shape.clear();
    }
    const std::size_t joined = box_to_join(moving);
    std::size_t at = joined;
    if (joined == kNone) {
      at = add_box({});
      for (const std::string& value : moving) picture_.wires[wire_of_.at(value)].to.push_back(at);
    } else {
      dropped_.insert(wire_of_.at(moving[0]));
    }
    Box& box = picture_.boxes[at];
    box.steps.push_back(std::move(step));
    if (box.steps.size() > Box::kHead + Box::kTail) {
      box.steps.erase(box.steps.begin() + Box::kHead);
      ++box.left_out;
    }
    for (const std::string& value : node.outputs) {
      if (!value.empty()) start(value, at);
    }
  }

  /// The box whose only result is all that the node moves, and that nobody else takes.
  std::size_t box_to_join(const std::vector<std::string>& moving) const {
    if (moving.size() != 1) return kNone;
    const std::string& value = moving[0];
    const Wire& wire = picture_.wires[wire_of_.at(value)];
    if (!wire.quantizers.empty() || links_.consumers(value).size() != 1 || links_.is_output(value))
      return kNone;
    const std::size_t producer = links_.producer(value);
    if (producer == graph::Links::kNone || picture_.boxes[wire.from].kind != Box::Kind::kOperators)
      return kNone;
    const auto& outputs = graph_.nodes[producer].outputs;
    const auto used = [&](const std::string& v) {
      return !links_.consumers(v).empty() || links_.is_output(v);
    };
    return std::ranges::count_if(outputs, used) == 1 ? wire.from : kNone;
  }

  void put_on_wire(const graph::Node& node, const std::string& before) {
    const Wire& source = picture_.wires[wire_of_.at(before)];
    Wire wire{.from = source.from, .to = {}, .shape = source.shape, .quantizers = source.quantizers};
    if (is_quantizer(node)) {
      wire.quantizers.push_back(label_of(node, node.op.c_str()));
    } else {
      const bool open = !wire.quantizers.empty() && wire.quantizers.back().text.starts_with("QuantizeLinear");
      if (open) wire.quantizers.pop_back();
      if (node.is("DequantizeLinear")) {
        wire.quantizers.push_back(label_of(node, open ? "QDQ" : "DequantizeLinear"));
      } else {
        wire.quantizers.push_back(label_of(node, "QuantizeLinear"));
      }
    }
    wire_of_[node.outputs[0]] = picture_.wires.size();
    picture_.wires.push_back(std::move(wire));
  }

  /// Wires that go nowhere, or that a folded chain swallowed, are dropped.
  Picture finished() {
    std::vector<Wire> kept;
    for (std::size_t i = 0; i < picture_.wires.size(); ++i) {
      Wire& wire = picture_.wires[i];
      if (wire.to.empty() || dropped_.contains(i)) continue;
      std::ranges::sort(wire.to);
      kept.push_back(std::move(wire));
    }
    picture_.wires = std::move(kept);
    return std::move(picture_);
  }

  const graph::Graph& graph_;
  graph::ConstantValues constants_;
  graph::Links links_;
  std::map<std::string, graph::ValueType> types_;
  std::set<std::string> hidden_;
  std::map<std::string, std::size_t> wire_of_;
  std::set<std::size_t> dropped_;
  Picture picture_;
};

}  // namespace

Picture picture_of(const graph::Graph& graph) { return Painter(graph).run(); }

}  // namespace crumb::analysis

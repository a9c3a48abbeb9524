// Rules about zero points, signs, widths and scales of quantizers, those of activations above all.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/files/text.h"
#include "export/lint/checks.h"
#include "export/lint/quantized.h"
#include "formats/number/power_of_two.h"

namespace crumb::exporting::checks {
namespace {

bool is_activation(const Graph& graph, const Node& node) {
  return is_integer_quantizer(node) && !is_weight(graph, node);
}

bool is_zero(const Tensor* constant) { return uniform(constant) == 0.0F; }

/// A signed quantizer behind a Relu needs one bit less without its sign.
bool can_lose_sign(const Subject& subject, const Node& node) {
  const auto bits = uniform(subject.constant(node, kBits));
  return node.has("signed") && node.int_or("signed", 1) != 0 && bits && *bits >= 2 &&
         std::trunc(*bits) == *bits && is_zero(subject.constant(node, kZeropt));
}

/// BipolarQuant does the same: x / scale >= 0 where x >= 0, as no quotient becomes 0.
bool can_be_bipolar(const Subject& subject, const Node& node) {
  const Tensor* scale = subject.constant(node, kScale);
  if (!scale || scale->type() != graph::ElementType::kFloat || !is_zero(subject.constant(node, kZeropt))) {
    return false;
  }
  return std::ranges::all_of(scale->to_floats(), [](float value) { return value > 0 && value <= 1; });
}

bool is_one_bit(const Subject& subject, const Node& node) {
  return is_quant(node) && uniform(subject.constant(node, kBits)) == 1.0F && node.int_or("signed", 1) != 0;
}

}  // namespace

void zero_points(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    const Tensor* zeropt = is_quant(node) ? subject.constant(node, kZeropt) : nullptr;
    if (!zeropt || is_zero(zeropt)) continue;
    const auto value = uniform(zeropt);
    report.add(node, "zeropt is " + (value ? number_text(*value) : "not one number") + ", expected 0",
               is_weight(subject.graph(), node)
                   ? without_zero_point(subject.graph(), node).has_value()
                   : subject.is_for(Profile::kFinn) && can_be_thresholds(subject, node));
  }
}

Graph remove_zero_points(Graph graph, Profile profile) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!is_quant(node) || !is_weight(graph, node) || is_zero(constant_input(graph, node, kZeropt))) continue;
    if (const auto same = without_zero_point(graph, node)) replace_constant(graph, i, *same);
  }
  const bool has_thresholds = Subject(graph, profile).is_for(Profile::kFinn);
  return has_thresholds ? write_thresholds(std::move(graph), profile) : graph;
}

void one_bit(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!is_one_bit(subject, node)) continue;
    report.add(node, "found a signed Quant of 1 bit, expected BipolarQuant", can_be_bipolar(subject, node));
  }
}

Graph make_bipolar(Graph graph, Profile profile) {
  std::vector<std::size_t> found;
  const Subject subject(graph, profile);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (is_one_bit(subject, node) && can_be_bipolar(subject, node)) found.push_back(i);
  }
  for (const std::size_t i : found) {
    graph.nodes[i].op = "BipolarQuant";
    graph.nodes[i].inputs.resize(2);
    for (const char* name : {"signed", "narrow", "rounding_mode"}) graph.nodes[i].attributes.erase(name);
  }
  graph::drop_unused(graph);
  return graph;
}

void activation_signs(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!is_quant(node) || is_weight(subject.graph(), node)) continue;
    const Node* source = subject.source(node, kData);
    const std::string before = source ? text_of(*source) : "input " + quote_text(input_of(node, kData));
    const bool is_signed = node.int_or("signed", 1) != 0;
    if (source && source->is("Relu")) {
      if (is_signed) {
        report.add(node, "it is signed behind " + before + ", expected signed=0 and narrow=0",
                   can_lose_sign(subject, node) || can_be_thresholds(subject, node));
      } else if (node.int_or("narrow", 0) != 0) {
        report.add(node, "it is narrow behind " + before + ", expected signed=0 and narrow=0",
                   can_be_thresholds(subject, node));
      }
    } else if (!is_signed) {
      report.add(node, "it is unsigned behind " + before + ", expected signed=1, or a Relu before it",
                 can_be_thresholds(subject, node));
    }
  }
}

Graph unsign_after_relu(Graph graph, Profile profile) {
  std::vector<std::size_t> found;
  const Subject subject(graph, profile);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const Node* source = is_quant(node) ? subject.source(node, kData) : nullptr;
    if (source && source->is("Relu") && can_lose_sign(subject, node)) found.push_back(i);
  }
  for (const std::size_t i : found) {
    Node& node = graph.nodes[i];
    give_constant(graph, node, kBits, Tensor::scalar(*uniform(constant_input(graph, node, kBits)) - 1));
    node.attributes["signed"] = std::int64_t{0};
    node.attributes["narrow"] = std::int64_t{0};
  }
  return write_thresholds(std::move(graph), profile);
}

void activation_bits(const Subject& subject, Report& report) {
  constexpr float kMost = 8;
  for (const Node& node : subject.nodes()) {
    if (!is_quant(node) || is_weight(subject.graph(), node)) continue;
    const auto bits = uniform(subject.constant(node, kBits));
    if (bits && *bits > kMost) {
      report.add(node, "bitwidth is " + number_text(*bits) + ", expected at most " + number_text(kMost));
    }
  }
}

void activation_scales(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!is_activation(subject.graph(), node)) continue;
    const Tensor* scale = subject.constant(node, kScale);
    if (!scale || scale->size() < 2) continue;
    const bool finn = subject.is_for(Profile::kFinn) && is_quant(node);
    const auto rank = subject.graph().rank_of(input_of(node, kData));
    const auto shape = filled_up(scale->shape(), rank.value_or(0));
    bool good = finn;
    for (std::size_t i = 0; i < shape.size(); ++i) good = good && (i == 1 || shape[i] == 1);
    if (good) continue;
    report.add(node,
               "scale has shape " + graph::text_of(std::span(scale->shape())) + ", expected one number" +
                   (finn ? ", or one for each channel on axis 1" : ""),
               uniform(scale).has_value());
  }
}

void bipolar_scales(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!is_bipolar(node)) continue;
    const bool weight = is_weight(subject.graph(), node);
    if (weight && subject.is_for(Profile::kFinn)) continue;  // goes behind the layer
    const Tensor* scale = subject.constant(node, kScale);
    const auto value = uniform(scale);
    if (!scale || value == 1.0F) continue;
    report.add(node,
               "scale is " + (value ? number_text(*value) : "not one number") +
                   ", expected 1 and the scale as a Mul behind it",
               !weight);
  }
}

Graph split_bipolar_scales(Graph graph, Profile) {
  return for_each_node(std::move(graph), [](Graph& all, std::size_t i) {
    const Tensor* scale = is_bipolar(all.nodes[i]) ? constant_input(all, all.nodes[i], kScale) : nullptr;
    if (!scale || is_weight(all, all.nodes[i]) || uniform(scale) == 1.0F || !all.nodes[i].has_output(0))
      return;
    const std::string output = all.nodes[i].outputs[0], factor = all.nodes[i].inputs[kScale];
    Value known = all.values[output];
    known.annotations.clear();
    Node mul{.name = all.unused_node_name(all.nodes[i].name + "_scale"),
             .op = "Mul",
             .version = all.opset(),
             .outputs = {output}};
    all.nodes[i].outputs[0] = graph::add_value(all, output + "_sign", known);
    give_constant(all, all.nodes[i], kScale, Tensor::scalar(1.0F));
    mul.inputs = {all.nodes[i].outputs[0], factor};
    all.nodes.push_back(std::move(mul));
  });
}

void power_of_two_scales(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    const Tensor* scale = is_quant(node) ? subject.constant(node, kScale) : nullptr;
    if (!scale || scale->type() != graph::ElementType::kFloat) continue;
    for (const float value : scale->to_floats()) {
      if (exponent_of(value) || !(value > 0)) continue;  // scale-value speaks of the others
      report.add(node, "scale is " + number_text(value) +
                           ", expected a power of two (scale=e8m0 in its spec, or --profile hls4ml)");
      break;
    }
  }
}

/// The scale of what a quantizer of an activation gives, written as such or as thresholds and a Mul.
static std::optional<float> scale_of_activation(const Subject& subject, const Node& node) {
  if (is_activation(subject.graph(), node)) return uniform(subject.constant(node, kScale));
  const Node* counts = node.is("Mul") ? subject.source(node, 0) : &node;
  if (!counts || !is_thresholds(*counts)) return {};
  const float step = counts->float_or("out_scale", 1);
  if (counts == &node) return step;
  const auto factor = uniform(subject.constant(node, 1));
  return factor ? std::optional(step * *factor) : std::nullopt;
}

void residual_scales(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!node.is("Add")) continue;
    std::optional<float> scales[2];
    for (std::size_t i = 0; i < 2; ++i) {
      const Node* source = subject.source(node, i);
      if (source) scales[i] = scale_of_activation(subject, *source);
    }
    if (!scales[0] || !scales[1] || *scales[0] == *scales[1]) continue;
    report.add(node, "it adds values of scale " + number_text(*scales[0]) + " and of scale " +
                         number_text(*scales[1]) + ", expected equal scales");
  }
}

}  // namespace crumb::exporting::checks

#include "export/qcdq/from_qcdq.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "export/qcdq/minifloats.h"
#include "export/qcdq/moved_codes.h"
#include "export/qcdq/qcdq_reader.h"
#include "graph/edit.h"
#include "graph/facts/bind_shapes.h"
#include "graph/onnx/integer_operators.h"
#include "graph/passes/passes.h"

namespace crumb::exporting {

using graph::ElementType;
using graph::Graph;
using graph::Links;
using graph::Node;
using graph::Tensor;

namespace {

constexpr int kMostBetween = 16;  // nodes between QuantizeLinear and DequantizeLinear
constexpr std::string_view kRuntimeDomain = "com.microsoft";

bool is_of_runtime(const Node& node) {
  return node.domain == graph::kOnnxDomain || node.domain == kRuntimeDomain;
}

/// Whether the node computes with integers that are quantized values.
bool is_integer_operator(const Node& node) {
  if (!is_of_runtime(node)) return false;
  constexpr std::array kOps = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear",
                               "ConvInteger",    "MatMulInteger",    "QGemm",
                               "QAttention",     "MatMulNBits"};
  return node.op.starts_with("QLinear") || node.op.starts_with("MatMulInteger") ||
         node.op.starts_with("DynamicQuantize") || std::ranges::find(kOps, node.op) != kOps.end();
}

std::map<std::string, std::string> bipolar_names(const Graph& graph) {
  std::map<std::string, std::string> names;
  const auto text = graph.metadata.find(kBipolarKey);
  if (text == graph.metadata.end()) return names;
  const auto json = nlohmann::json::parse(text->second, nullptr, false);
  if (!json.is_object()) return names;
  for (const auto& [name, op] : json.items()) {
    if (op == "BipolarQuant" || op == "Quant") names[name] = op.get<std::string>();
  }
  return names;
}

ElementType type_made_by(const Graph& graph, const Node& quantize) {
  if (const Tensor* zero = graph::constant_input(graph, quantize, 2)) return zero->type();
  if (const auto type = graph::element_type_of(quantize.int_or("output_dtype", 0))) return *type;
  const graph::Value* known = graph.find(quantize.outputs[0]);
  if (quantize.has_input(2) && known) return known->type;
  return ElementType::kUint8;
}

/// What Clip leaves of the bounds.
Result<IntegerBounds> clipped(const Graph& graph, const Node& clip, IntegerBounds bounds) {
  for (const std::size_t i : {1, 2}) {
    if (!clip.has_input(i)) continue;
    const Tensor* bound = graph.constant(clip.inputs[i]);
    if (!bound || bound->size() != 1 || !is_integer(bound->type())) {
      return Failure{"is behind " + graph::text_of(clip) + ", whose bounds are no constant integers"};
    }
    const std::int64_t at = bound->to_ints()[0];
    const auto apply = [&](std::int64_t x) { return i == 1 ? std::max(x, at) : std::min(x, at); };
    bounds = {apply(bounds.low), apply(bounds.high)};
  }
  return bounds;
}

}  // namespace

bool is_quantize(const Node& node) { return node.op == "QuantizeLinear" && is_of_runtime(node); }
bool is_dequantize(const Node& node) { return node.op == "DequantizeLinear" && is_of_runtime(node); }

Graph in_qonnx(Graph graph) {
  const bool is_qcdq = std::ranges::any_of(graph.nodes, [](const graph::Node& node) {
    return node.is("QuantizeLinear") || node.is("DequantizeLinear");
  });
  if (!is_qcdq) return graph;
  try {
    return from_qcdq(graph);
  } catch (const Error&) {
    return graph;
  }
}

Graph from_qcdq(Graph graph, QcdqReport* report) {
  graph = graph::plain_constants(std::move(graph));
  graph = graph::dequantize_operators(std::move(graph), [](const Node&) { return true; });
  graph = dequantize_before_moves(graph::fold_parameters(std::move(graph)));
  graph = graph::resolve_shapes(std::move(graph));
  QcdqReport own;
  QcdqReport& said = report ? *report : own;
  said = {};
  QcdqReader reader(graph, said);
  std::map<std::string, std::string> misfits;  // by what the messages call the node
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (const auto why = reader.read(i)) misfits[graph::text_of(graph.nodes[i])] = *why;
  }
  Graph made = std::move(reader).finish(graph);
  for (const Node& node : made.nodes) {
    if (is_integer_operator(node)) {
      misfits.try_emplace(graph::text_of(node), "computes integers that no quantizer of QONNX stands for");
    }
  }
  if (misfits.empty()) return made;
  std::string text;
  for (const auto& [node, why] : misfits) text += (text.empty() ? "" : "; ") + node + " " + why;
  throw Error("the graph cannot be written as QONNX: " + text);
}

Result<IntegerSource> integer_source(const Graph& graph, const Links& links, const Node& dequantize) {
  IntegerSource source{.value = dequantize.inputs[0]};
  std::vector<const Node*> between;
  while (!source.quantize) {
    if (const Tensor* codes = graph.constant(source.value)) {
      source.container = codes->type();
      break;
    }
    const std::size_t producer = links.producer(source.value);
    if (producer == Links::kNone) {
      return Failure{"takes integers that are an input of the graph"};
    }
    const Node& node = graph.nodes[producer];
    if (!node.has_input(0)) return Failure{"is behind " + graph::text_of(node) + ", which has no input"};
    if (is_quantize(node)) {
      source.quantize = &node;
      source.container = type_made_by(graph, node);
    } else if ((node.is("Clip") || node.is("Cast") || node.is("Identity")) && between.size() < kMostBetween) {
      between.push_back(&node);
      source.value = node.inputs[0];
    } else {
      return Failure{"takes integers that " + graph::text_of(node) + " computes"};
    }
  }
  const bool is_minifloat = find_minifloat(source.container) != nullptr;
  if (!is_minifloat && !is_integer(source.container)) {
    return Failure{"takes values of type " + std::string(name_of(source.container))};
  }
  if (!is_minifloat) source.bounds = bounds_of(source.container);
  for (auto node = between.rbegin(); node != between.rend(); ++node) {
    if ((*node)->is("Identity")) continue;
    if (is_minifloat) return Failure{"is behind " + graph::text_of(**node) + ", which changes its values"};
    if ((*node)->is("Clip")) {
      const auto left = clipped(graph, **node, source.bounds);
      if (!left.ok()) return left.failure();
      source.bounds = left.value();
      continue;
    }
    const auto to = graph::element_type_of((*node)->int_or("to", 0));
    if (!to || !is_integer(*to) || !bounds_of(*to).contains(source.bounds)) {
      return Failure{"is behind " + graph::text_of(**node) + ", which does not hold all of " +
                     text_of(source.bounds)};
    }
  }
  return source;
}

QcdqReader::QcdqReader(const Graph& graph, QcdqReport& report)
    : graph_(graph), report_(report), links_(graph), out_(graph), bipolar_names_(bipolar_names(graph)) {}

const std::string& QcdqReader::alias(const std::string& value) const {
  const auto found = aliases_.find(value);
  return found == aliases_.end() ? value : found->second;
}

Why QcdqReader::read(std::size_t at) {
  Node node = graph_.nodes[at];
  Why why;
  if (is_dequantize(node) && node.has_output(0)) {
    why = node.has_input(0) ? dequantize(node) : Why("has no input");
    if (!why) return {};
  }
  if (node.is("Where") && reads_sign(node)) return {};
  for (std::string& input : node.inputs) input = alias(input);
  out_.keep(node);
  return why;
}

Graph QcdqReader::finish(Graph graph) && {
  graph.metadata.erase(kBipolarKey);
  return std::move(out_).finish(std::move(graph));
}

Why QcdqReader::dequantize(const Node& node) {
  const std::int64_t made = node.int_or("output_dtype", 0);
  if (made != 0 && made != graph::onnx_number(ElementType::kFloat)) {
    return "makes another type than float, which QONNX's quantizers do not";
  }
  const auto source = integer_source(graph_, links_, node);
  if (!source.ok()) return source.failure().message;
  const Node* quantize = source.value().quantize;
  const auto shape = graph_.shape_of(quantize ? quantize->inputs[0] : source.value().value);
  const auto linear = parameters_of(graph_, node, shape);
  if (!linear.ok()) return linear.failure().message;
  auto quantizer = quantizer_of(node, source.value());
  if (!quantizer.ok()) return quantizer.failure().message;
  if (quantize) {
    const auto other = parameters_of(graph_, *quantize, shape);
    if (!other.ok()) return "is behind " + graph::text_of(*quantize) + ", which " + other.failure().message;
    if (!(other.value() == linear.value())) {
      return "has another scale, zero point or axis than " + graph::text_of(*quantize);
    }
  }
  const bool is_minifloat = quantizer.value().minifloat != ElementType::kUnknown;
  if (quantize && (is_minifloat || !graph_.constant(quantize->inputs[0]))) {
    quantizer.value().parameters = broadcast(linear.value(), shape.value_or(graph::Shape()));
    return activation(node, source.value(), std::move(quantizer.value()));
  }
  const Tensor& whole = *graph_.constant(quantize ? quantize->inputs[0] : source.value().value);
  GroupedParameters grouped = in_groups(linear.value(), whole.shape());
  quantizer.value().parameters = std::move(grouped.parameters);
  const Tensor tensor = whole.reshaped(std::move(grouped.shape));
  return is_minifloat ? constant_floats(node, tensor, whole.shape(), quantizer.value())
                      : constant(node, tensor, whole.shape(), source.value(), quantizer.value());
}

Result<QcdqReader::Quantizer> QcdqReader::quantizer_of(const Node& node, const IntegerSource& source) const {
  Quantizer made;
  if (find_minifloat(source.container)) {
    made.op = "FloatQuant";
    made.minifloat = source.container;
    made.saturates = !source.quantize || source.quantize->int_or("saturate", 1) != 0;
    return made;
  }
  const auto bipolar = bipolar_names_.find(node.name);
  if (source.bounds == IntegerBounds{-1, 1} && bipolar != bipolar_names_.end()) {
    made.op = bipolar->second;
    made.range = {1, true, false};
    return made;
  }
  const auto range = range_of(source.bounds);
  if (!range) {
    return Failure{
        "holds the integers " + text_of(source.bounds) +
        ", which no width says; those of b bits are [-2^(b-1), 2^(b-1) - 1] and [0, 2^b - 1], narrow "
        "without the least and without the greatest"};
  }
  made.range = *range;
  return made;
}

Why QcdqReader::activation(const Node& node, const IntegerSource& source, Quantizer quantizer) {
  const std::string& data = source.quantize->inputs[0];
  const graph::Value* known = graph_.find(data);
  if (known && known->type != ElementType::kUnknown && known->type != ElementType::kFloat) {
    return "is of values of type " + std::string(name_of(known->type)) + "; QONNX's quantizers are float32";
  }
  const std::string& output = node.outputs[0];
  const std::string key = source.quantize->outputs[0] + '\n' + text_of(source.bounds) + '\n' + quantizer.op;
  const auto same = same_.find(key);
  if (same != same_.end() && !links_.is_output(output)) {
    aliases_[output] = same->second;
    return {};
  }
  same_.try_emplace(key, output);
  if (std::ranges::any_of(quantizer.parameters.zero, [](float zero) { return zero != 0; })) {
    report_.ties.push_back(name_of(node));
  }
  emit(node, alias(data), quantizer, output);
  return {};
}

/// Where(x >= 0, scale, -scale), or of x / scale.
bool QcdqReader::reads_sign(const Node& where) {
  if (where.inputs.size() != 3 || !where.has_output(0)) return false;
  const Tensor* above = graph_.constant(where.inputs[1]);
  const Tensor* below = graph_.constant(where.inputs[2]);
  const std::size_t test = links_.producer(where.inputs[0]);
  if (!above || !below || test == Links::kNone || !graph_.nodes[test].is("GreaterOrEqual")) return false;
  if (above->type() != ElementType::kFloat || below->type() != ElementType::kFloat) return false;
  const std::vector<float> plus = above->to_floats(), minus = below->to_floats();
  if (plus.empty() || above->shape() != below->shape() ||
      !std::ranges::equal(plus, minus, [](float p, float m) { return p == -m; }))
    return false;
  const Node& compare = graph_.nodes[test];
  if (compare.inputs.size() != 2) return false;
  const Tensor* zero = graph_.constant(compare.inputs[1]);
  if (!zero || zero->type() != ElementType::kFloat || zero->rank() != 0 || zero->to_floats()[0] != 0)
    return false;

  std::string data = compare.inputs[0];
  const std::size_t division = links_.producer(data);
  Quantizer quantizer{.op = "BipolarQuant", .range = {1, true, false}};
  if (division != Links::kNone && graph_.nodes[division].is("Div") && graph_.nodes[division].has_input(1)) {
    const Tensor* by = graph_.constant(graph_.nodes[division].inputs[1]);
    if (by && *by == *above) {
      quantizer.op = "Quant";
      data = graph_.nodes[division].inputs[0];
    }
  }
  const graph::Value* known = graph_.find(data);
  const auto shape = graph_.shape_of(data);
  if (!known || known->type != ElementType::kFloat) return false;
  if (above->rank() > 0) {
    // The result has the input's shape only where the scale broadcasts to it.
    if (!shape || shape->size() < above->shape().size()) return false;
    for (std::size_t i = 0; i < above->shape().size(); ++i) {
      const std::int64_t size = above->shape()[above->shape().size() - 1 - i];
      if (size != 1 && (*shape)[shape->size() - 1 - i] != graph::Dim(size)) return false;
    }
  }
  quantizer.parameters = {.scale = plus, .zero = {0}, .shape = above->shape()};
  emit(where, alias(data), quantizer, where.outputs[0]);
  return true;
}

void QcdqReader::emit(const Node& node, const std::string& data, const Quantizer& quantizer,
                      const std::string& output) {
  out_.release(node);
  const std::string name = name_of(node);
  const BroadcastParameters& p = quantizer.parameters;
  std::vector<std::string> inputs{data, out_.constant(name + "_scale", Tensor::floats(p.shape, p.scale))};
  const auto number = [&](const char* suffix, double value) {
    inputs.push_back(out_.constant(name + suffix, Tensor::scalar(static_cast<float>(value))));
  };
  std::map<std::string, graph::Attribute> attributes;
  if (quantizer.op == "Quant") {
    const bool is_one = std::ranges::all_of(p.zero, [&](float zero) { return zero == p.zero[0]; });
    if (is_one) number("_zeropt", p.zero[0]);
    if (!is_one) inputs.push_back(out_.constant(name + "_zeropt", Tensor::floats(p.shape, p.zero)));
    number("_bitwidth", quantizer.range.bits);
    attributes = {{"signed", std::int64_t{quantizer.range.is_signed}},
                  {"narrow", std::int64_t{quantizer.range.narrow}},
                  {"rounding_mode", std::string("ROUND")}};
  } else if (quantizer.op == "FloatQuant") {
    const graph::FloatFormat& format = find_minifloat(quantizer.minifloat)->format;
    number("_exponent_bitwidth", format.exponent_bits);
    number("_mantissa_bitwidth", format.mantissa_bits);
    number("_exponent_bias", format.exponent_bias);
    number("_max_val", format.max_value);
    attributes = {{"has_inf", std::int64_t{format.has_inf}},
                  {"has_nan", std::int64_t{format.has_nan}},
                  {"has_subnormal", std::int64_t{1}},
                  {"saturation", std::int64_t{quantizer.saturates}},
                  {"rounding_mode", std::string("ROUND")}};
  }
  out_.node({.op = quantizer.op,
             .name = name,
             .inputs = std::move(inputs),
             .attributes = std::move(attributes),
             .output = output,
             .known = {.type = ElementType::kFloat},
             .domain = std::string(graph::kQonnxDomain)});
}

}  // namespace crumb::exporting

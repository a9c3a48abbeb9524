#include "export/qcdq/to_qcdq.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files/text.h"
#include "export/qcdq/qcdq_writer.h"
#include "graph/edit.h"
#include "graph/facts/bind_shapes.h"
#include "graph/onnx/schemas.h"
#include "graph/onnx/wire/domains.h"
#include "graph/passes/opset.h"
#include "graph/passes/passes.h"

namespace crumb::exporting {

using graph::ConstantValue;
using graph::ElementType;
using graph::Graph;
using graph::Node;

namespace {

constexpr std::int64_t kLeastOpset = 13;

bool is_whole(double x) { return std::trunc(x) == x && std::fabs(x) < 1e15; }

}  // namespace

Result<Graph> find_qcdq(Graph graph, const QcdqOptions& options, QcdqReport& report) {
  if (options.opset < kLeastOpset || options.opset > graph::kNewestOpset) {
    throw usage_error("operator set " + std::to_string(options.opset) + ": expected one from " +
                      std::to_string(kLeastOpset) + " to " + std::to_string(graph::kNewestOpset));
  }
  const auto opset = graph::find_least_opset(graph, options.opset);
  if (!opset.ok()) return opset.failure();
  graph = graph::with_opset(std::move(graph), opset.value());
  graph = graph::resolve_shapes(graph::plain_constants(std::move(graph)));
  report = {};
  QcdqWriter writer(graph, options, report);
  std::string misfits;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (const auto why = writer.write(i)) {
      misfits += (misfits.empty() ? "" : "; ") + graph::text_of(graph.nodes[i]) + " " + *why;
    }
  }
  if (!misfits.empty()) {
    const bool is_float = options.arithmetic == Arithmetic::kAll;
    return Failure{std::string("the graph cannot be written as ") + (is_float ? "float ONNX" : "QCDQ") +
                   " in operator set " + std::to_string(graph.opset()) + ": " + misfits +
                   " (QONNX can say them)"};
  }
  return std::move(writer).finish(graph);
}

Graph to_qcdq(Graph graph, const QcdqOptions& options, QcdqReport* report) {
  QcdqReport own;
  return find_qcdq(std::move(graph), options, report ? *report : own).take();
}

QcdqWriter::QcdqWriter(const Graph& graph, const QcdqOptions& options, QcdqReport& report)
    : graph_(graph),
      options_(options),
      report_(report),
      opset_(graph.opset()),
      constants_(graph),
      links_(graph),
      out_(graph) {}

Why QcdqWriter::write(std::size_t at) {
  const Node& node = graph_.nodes[at];
  if (done_.contains(at)) return {};
  if (node.domain == graph::kQonnxDomain && node.has_output(0)) {
    if (node.op == "Quant" || node.op == "IntQuant") return quant(at);
    if (node.op == "BipolarQuant") return bipolar(node);
    if (node.op == "FloatQuant") return float_quant(node);
    if (node.op == "Trunc") {
      if (options_.arithmetic != Arithmetic::kNone) return arithmetic_trunc(node);
      return "rounds twice, which QuantizeLinear does not (float arithmetic could say it)";
    }
  }
  if (node.domain == graph::kQonnxDomain || node.domain == graph::kChannelsLastDomain) {
    return "is no operator of ONNX";
  }
  out_.keep(node);
  return {};
}

Graph QcdqWriter::finish(Graph graph) && {
  if (!bipolar_names_.empty()) graph.metadata[kBipolarKey] = nlohmann::json(bipolar_names_).dump();
  return std::move(out_).finish(std::move(graph));
}

bool QcdqWriter::QuantParameters::has_whole_zero() const {
  return std::ranges::all_of(zero.values, is_whole);
}
bool QcdqWriter::QuantParameters::has_whole_bits() const {
  return is_whole(format.bits) && format.bits >= 1 && format.bits <= 32;
}
IntegerRange QcdqWriter::QuantParameters::range() const {
  const int bits = static_cast<int>(format.bits);
  // Of one bit, narrow is 0 alone where there is no sign, and ignored where there is one.
  return {bits, format.is_signed, format.narrow && !format.is_bipolar()};
}

Result<QcdqWriter::QuantParameters> QcdqWriter::parameters_of_quant(const Node& node) const {
  if (node.inputs.size() < 4) {
    return Failure{"has " + std::to_string(node.inputs.size()) + " inputs, expected 4"};
  }
  const auto bits = constants_.find(node.inputs[3]);
  if (!bits || bits->values.size() != 1) return Failure{"has no single constant bit width"};
  auto scale = constants_.find(node.inputs[1]), zero = constants_.find(node.inputs[2]);
  if (!scale) return Failure{"has a scale that is computed from its inputs"};
  if (!zero) return Failure{"has a zero point that is computed from its inputs"};
  const std::string mode = node.text_or("rounding_mode", "ROUND");
  const auto found = graph::find_quant_rounding(mode);
  if (!found) return Failure{"has the unknown rounding_mode " + quote_text(mode)};
  return QuantParameters{.scale = std::move(*scale),
                         .zero = std::move(*zero),
                         .format = {.bits = bits->values[0],
                                    .is_signed = node.int_or("signed", 1) != 0,
                                    .narrow = node.int_or("narrow", 0) != 0,
                                    .wide = bits->wide},
                         .mode = *found};
}

Why QcdqWriter::quant(std::size_t at) {
  const Node& node = graph_.nodes[at];
  const auto found = parameters_of_quant(node);
  if (node.inputs.size() < 4) return found.failure().message;
  const bool is_constant = has_constant_data(node);
  if (is_constant && !found.ok()) return found.failure().message;
  if (is_constant) return constant_quant(at, found.value());
  if (options_.arithmetic == Arithmetic::kAll) return arithmetic_quant(node);
  Why why = found.ok() ? activation_quant(node, found.value()) : Why(found.failure().message);
  if (!why || options_.arithmetic == Arithmetic::kNone) return why;
  const Why not_so_either = arithmetic_quant(node);
  return not_so_either ? *why + ", and " + *not_so_either : Why();
}

Why QcdqWriter::bipolar(const Node& node) {
  if (node.inputs.size() < 2) return "has no scale";
  const auto scale = constants_.find(node.inputs[1]);
  if (!scale) return "has a scale that is computed from its inputs";
  return has_constant_data(node) ? constant_bipolar(node, *scale) : activation_sign(node, *scale, false);
}

Why QcdqWriter::takes_floats(const Node& node) const {
  const graph::Value* known = graph_.find(node.inputs[0]);
  if (!known || known->type == ElementType::kUnknown || known->type == ElementType::kFloat) return {};
  return "takes " + std::string(name_of(known->type)) + ", expected float";
}

Why QcdqWriter::activation_quant(const Node& node, const QuantParameters& parameters) {
  if (auto why = takes_floats(node)) return why;
  if (!parameters.has_whole_zero()) return "has a zero point that is no whole number";
  if (!parameters.has_whole_bits()) return "has a bit width that is no whole number from 1 to 32";
  const auto shape = graph_.shape_of(node.inputs[0]);
  const auto linear = linear_parameters(parameters.scale, parameters.zero, shape, opset_);
  if (!linear.ok()) return linear.failure().message;
  if (!std::ranges::all_of(parameters.scale.values,
                           [](double s) { return s == static_cast<double>(static_cast<float>(s)); })) {
    return "has a scale that is no float32";
  }
  if (parameters.format.is_bipolar()) {
    if (linear.value().is_shifted()) return "has one bit with a sign, and a zero point";
    return activation_sign(node, parameters.scale, true);
  }
  if (parameters.mode != graph::QuantRounding::kHalfEven) {
    return "rounds by " + node.text_or("rounding_mode", "ROUND") + ", QuantizeLinear to even";
  }
  if (parameters.range().bits == 1 && parameters.range().narrow) return "has one bit, narrow: 0 alone";
  const auto container = container_of(parameters.range(), linear.value(), false);
  if (!container.ok()) return container.failure().message;
  replaces(node);
  Chain chain = chain_for(node);
  chain.data = node.inputs[0];
  chain.quantizes = true;
  chain.container = container.value();
  chain.bounds = parameters.range().bounds();
  chain.parameters = linear.value();
  emit(chain);
  if (linear.value().is_shifted() || parameters.scale.wide) report_.ties.push_back(name_of(node));
  return {};
}

Why QcdqWriter::activation_sign(const Node& node, const ConstantValue& scale, bool divides) {
  if (auto why = takes_floats(node)) return why;
  std::vector<float> above(scale.values.begin(), scale.values.end()), below;
  for (const float s : above) below.push_back(-s);
  if (scale.wide && !std::ranges::equal(above, scale.values, {}, [](float s) -> double { return s; })) {
    return "has a scale that is no float32";
  }
  replaces(node);
  const std::string name = name_of(node);
  const graph::Value* known = graph_.find(node.outputs[0]);
  const graph::Value floats = known ? *known : graph::Value{.type = ElementType::kFloat};
  const std::string plus = out_.constant(name + "_scale", graph::Tensor::floats(scale.shape, above)),
                    minus = out_.constant(name + "_negative", graph::Tensor::floats(scale.shape, below)),
                    zero = out_.constant(name + "_zero", graph::Tensor::scalar(0.0F));
  std::string x = node.inputs[0];
  if (divides) x = out_.node({.op = "Div", .name = name + "_div", .inputs = {x, plus}, .known = floats});
  graph::Value truth = floats;
  truth.type = ElementType::kBool;
  truth.annotations.clear();
  const std::string is_above = out_.node(
      {.op = "GreaterOrEqual", .name = name + "_sign", .inputs = {x, zero}, .known = std::move(truth)});
  out_.node({.op = "Where", .name = name, .inputs = {is_above, plus, minus}, .output = node.outputs[0]});
  return {};
}

Result<ElementType> QcdqWriter::container_of(const IntegerRange& range, const LinearParameters& parameters,
                                             bool is_constant) const {
  const bool sign = range.is_signed;
  ElementType type = ElementType::kUnknown;
  if (options_.native_types && range.bits == 4 && !range.narrow && opset_ >= 21) {
    type = sign ? ElementType::kInt4 : ElementType::kUint4;
  } else if (options_.native_types && range.bits == 2 && !range.narrow && opset_ >= 25) {
    type = sign ? ElementType::kInt2 : ElementType::kUint2;
  } else if (range.bits <= 8) {
    type = sign ? ElementType::kInt8 : ElementType::kUint8;
  } else if (is_constant && !parameters.is_shifted() && range.bits <= (sign ? 32 : 31)) {
    type = ElementType::kInt32;
  } else if (range.bits <= 16 && opset_ >= 21) {
    type = sign ? ElementType::kInt16 : ElementType::kUint16;
  } else {
    const std::string what = "has " + std::to_string(range.bits) + " bits" + (sign ? "" : " and no sign") +
                             (parameters.is_shifted() ? " and a zero point" : "");
    return Failure{what + (range.bits <= 16 ? ", which needs operator set 21"
                                            : ", more than QuantizeLinear and DequantizeLinear hold")};
  }
  const IntegerBounds bounds = bounds_of(type);
  for (const std::int64_t zero : parameters.zero) {
    if (!bounds.contains({zero, zero})) {
      return Failure{"has the zero point " + std::to_string(zero) + ", which " + std::string(name_of(type)) +
                     " does not hold"};
    }
  }
  return type;
}

QcdqWriter::Chain QcdqWriter::chain_for(const Node& node) const {
  Chain chain{.name = name_of(node), .output = node.outputs[0]};
  chain.known.shape = graph_.shape_of(node.outputs[0]);
  if (!chain.known.shape) chain.known.shape = graph_.shape_of(node.inputs[0]);
  return chain;
}

void QcdqWriter::emit(const Chain& chain) {
  const LinearParameters& p = chain.parameters;
  const ElementType type = chain.container;
  const std::string& name = chain.name;
  const auto known = [&](ElementType as) { return graph::Value{.type = as, .shape = chain.known.shape}; };
  std::vector<std::string> parameters{
      out_.constant(name + "_scale", graph::Tensor::floats(p.shape, p.scale))};
  if (type != ElementType::kInt32) {
    // Floats have no zero point but 0, and its bits are zeros in every type.
    parameters.push_back(out_.constant(name + "_zero_point", graph::Tensor::ints(type, p.shape, p.zero)));
  }
  const auto inputs = [&](const std::string& data) {
    std::vector<std::string> all{data};
    all.insert(all.end(), parameters.begin(), parameters.end());
    return all;
  };
  std::string x = chain.data;
  if (chain.quantizes) {
    x = out_.node({.op = "QuantizeLinear",
                   .name = name + "_quantize",
                   .inputs = inputs(x),
                   .attributes = p.attributes(),
                   .known = known(type)});
  }
  if (is_integer(type) && bounds_of(type) != chain.bounds) {
    const bool casts = type == ElementType::kInt16 || type == ElementType::kUint16;
    const ElementType clipped = casts ? ElementType::kInt32 : type;
    const auto cast = [&](const char* suffix, ElementType to) {
      x = out_.node({.op = "Cast",
                     .name = name + suffix,
                     .inputs = {x},
                     .attributes = {{"to", std::int64_t{graph::onnx_number(to)}}},
                     .known = known(to)});
    };
    if (casts) cast("_wide", clipped);
    const auto bound = [&](const char* suffix, std::int64_t value) {
      return out_.constant(name + suffix, graph::Tensor::ints(clipped, {}, {{value}}));
    };
    x = out_.node({.op = "Clip",
                   .name = name + "_clip",
                   .inputs = {x, bound("_min", chain.bounds.low), bound("_max", chain.bounds.high)},
                   .known = known(clipped)});
    if (casts) cast("_short", type);
  }
  out_.node({.op = "DequantizeLinear",
             .name = name,
             .inputs = inputs(x),
             .attributes = p.attributes(),
             .output = chain.output});
}

}  // namespace crumb::exporting

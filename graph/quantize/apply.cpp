#include "graph/quantize/apply.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "base/files/text.h"
#include "base/text/ascii_case.h"
#include "formats/number/token_scale.h"
#include "graph/datatypes.h"
#include "graph/edit.h"
#include "graph/qonnx/quantizer_nodes.h"
#include "graph/quantize/bias_room.h"
#include "graph/quantize/key_cache.h"
#include "graph/quantize/statistics.h"
#include "quant/distortion.h"

namespace crumb::graph {
namespace {

/// Returns QONNX's name of a rounding; plans have no others.
std::string rounding_of(const QuantSpec& spec) {
  if (spec.round.rounding == Rounding::kHalfEven) return "ROUND";
  return upper_case(std::string(rounding_name(spec.round.rounding)));
}

bool is_narrow(const QuantSpec& spec) {
  return spec.number->grid == Grid::kInteger &&
         (spec.number->least_code(spec.range) != spec.number->least_code(Range::kFull) ||
          spec.number->greatest_code(spec.range) != spec.number->greatest_code(Range::kFull));
}

void import_qonnx(Graph& graph, Node& node) {
  node.version = graph.opsets.emplace(kQonnxDomain, 1).first->second;
}

void quantize_constants(Graph& graph, const QuantPlan& plan, int threads) {
  for (const PlannedConstant& constant : plan.constants) {
    if (!constant.spec) continue;
    set_codes(graph, constant.value, codes_of(constant, graph, threads));
  }
}

/// Numbers may be cut off as long as a bias keeps as much as weights must (kLeastOfWeights); in 32 bits none
/// may be.
void expect_to_fit(const PlannedBias& bias, const Tensor& values, const BiasValues& made,
                   const std::string& node) {
  if (made.saturated == 0) return;
  const std::vector<float> wanted = values.to_floats(), found = made.values.to_floats();
  DistortionSum lost;
  lost.add(wanted, found, 1);
  const double kept = lost.result().sqnr_db;
  if (bias.bits < 32 && kept >= kLeastOfWeights) return;
  std::size_t worst = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (std::fabs(wanted[i] - found[i]) > std::fabs(wanted[worst] - found[worst])) worst = i;
  char text[512];
  std::snprintf(text, sizeof text,
                "%llu of its %zu numbers are beyond int%d at the scale of input times weight, at worst "
                "number %zu, which is %g and "
                "would be %g (%.1f dB of the bias would be left); weights of a channel take a larger scale "
                "for its bias where they "
                "keep %g dB, and here they do not",
                static_cast<unsigned long long>(made.saturated), wanted.size(), bias.bits, worst,
                static_cast<double>(wanted[worst]), static_cast<double>(found[worst]), kept, kLeastOfWeights);
  throw Error("the bias " + quote_text(bias.value) + " of " + node + " does not fit: " + text +
              "; keep biases in floats (--biases keep)" +
              (bias.bits < 32 ? ", give them more bits (--biases int32)" : "") +
              ", or leave this layer as it is (--exclude)");
}

/// Gives weights scales under which their biases fit. Throws Error where one does not, and too much of it
/// would be cut off.
std::vector<BiasUse> make_room(Graph& graph, const QuantPlan& plan,
                               const std::map<std::string, Tensor>& weights) {
  std::map<std::string, const PlannedConstant*> planned;
  for (const PlannedConstant& constant : plan.constants) planned[constant.value] = &constant;
  for (const PlannedBias& bias : plan.biases) {
    const auto codes = graph.quantized.find(bias.weight);
    const Tensor* values = graph.constant(bias.value);
    const auto weight = planned.find(bias.weight);
    const auto floats = weights.find(bias.weight);  // codes that training chose have no floats here, and stay
    if (codes == graph.quantized.end() || !values || floats == weights.end() || weight == planned.end() ||
        !weight->second->spec)
      continue;
    codes->second = with_room_for(codes->second, floats->second, *weight->second->spec, *values,
                                  plan.edges[bias.edge].scale, bias.bits);
  }
  // Counted last: several biases may have enlarged the same weights' scales.
  std::vector<BiasUse> uses;
  for (const PlannedBias& bias : plan.biases) {
    const auto codes = graph.quantized.find(bias.weight);
    const Tensor* values = graph.constant(bias.value);
    BiasUse& use = uses.emplace_back();
    if (codes == graph.quantized.end() || !values) continue;
    const BiasValues made = quantize_bias(*values, codes->second, plan.edges[bias.edge].scale, bias.bits);
    if (weights.contains(bias.weight)) {
      const auto weight = planned.find(bias.weight);
      expect_to_fit(bias, *values, made, weight == planned.end() ? bias.made_by : weight->second->node);
    }
    use = {.values = static_cast<std::uint64_t>(values->size()), .saturated = made.saturated};
  }
  return uses;
}

void quantize_edge(Graph& graph, const QuantPlan& plan, const PlannedEdge& edge) {
  if (!edge.spec.is_dynamic() && !(edge.scale > 0))
    throw Error("the edge " + quote_text(edge.value) + " has no scale: calibrate first");
  const Value* known = graph.find(edge.value);
  Value like = known ? *known : Value{.type = ElementType::kFloat, .shape = {}, .annotations = {}};
  like.annotations.erase(kDatatypeAnnotation);
  std::vector<Node> nodes = edge.truncation
                                ? truncating_nodes(graph, edge, plan.edges[edge.truncation->input].scale)
                                : activation_quantizer(graph, edge, edge.value);
  const std::string made = add_value(graph, edge.value + "_quantized", like);
  std::set<std::string> taken;
  for (Node& node : graph.nodes) {
    if (!edge.is_taken_by(node) || std::ranges::count(node.inputs, edge.value) == 0) continue;
    std::ranges::replace(node.inputs, edge.value, made);
    taken.insert(node.outputs.at(0));
  }
  for (const std::string& consumer : edge.consumers)
    if (!taken.contains(consumer))
      throw Error("the plan's edge " + quote_text(edge.value) + " is for the node that makes " +
                  quote_text(consumer) + ", which does not take it");
  (edge.truncation ? nodes.front() : nodes.back()).inputs[0] = edge.value;
  nodes.back().outputs = {made};
  for (Node& node : nodes) {
    if (node.name.empty())
      node.name = graph.unused_node_name(edge.value + (node.op == "Mul" ? "_mul" : "_quant"));
  }
  std::ranges::move(nodes, std::back_inserter(graph.nodes));
}

/// Adds the quantized bias; returns its value.
std::string add_quantized_bias(Graph& graph, const QuantPlan& plan, const PlannedBias& bias) {
  const Tensor* old = graph.constant(bias.value);
  const auto weight = graph.quantized.find(bias.weight);
  if (!old || weight == graph.quantized.end()) {
    throw Error("the plan's bias " + quote_text(bias.value) + " is not in the graph");
  }
  const BiasValues made = quantize_bias(*old, weight->second, plan.edges[bias.edge].scale, bias.bits);
  Node quantizer =
      quant_node({add_constant(graph, bias.value + "_values", made.values),
                  add_constant(graph, bias.value + "_scale", made.scale),
                  add_constant(graph, bias.value + "_zeropt", Tensor::scalar(0.0F)),
                  add_constant(graph, bias.value + "_bits", Tensor::scalar(static_cast<float>(bias.bits)))},
                 true, false);
  import_qonnx(graph, quantizer);
  const std::string name = add_value(graph, bias.value + "_quantized", value_of(made.values));
  quantizer.name = graph.unused_node_name(bias.value + "_quant");
  quantizer.outputs = {name};
  graph.nodes.push_back(std::move(quantizer));
  return name;
}

/// Gives a bias that all consumers add at one scale one value for all: the cells of a recurrent layer share a
/// bias, and the first of them may add it without a product. A bias with several scales gets one value for
/// each.
void quantize_biases(Graph& graph, const QuantPlan& plan) {
  const auto like = [&](const PlannedBias& a, const PlannedBias& b) {
    return a.weight == b.weight && a.bits == b.bits && plan.edges[a.edge].scale == plan.edges[b.edge].scale;
  };
  std::map<std::string, std::vector<const PlannedBias*>> by_value;
  for (const PlannedBias& bias : plan.biases) by_value[bias.value].push_back(&bias);
  for (const auto& [value, biases] : by_value) {
    const PlannedBias& first = *biases[0];
    if (std::ranges::all_of(biases, [&](const PlannedBias* bias) { return like(*bias, first); })) {
      const std::string made = add_quantized_bias(graph, plan, first);
      replace_uses(graph, value, made);
      continue;
    }
    for (const PlannedBias* bias : biases) {
      const auto node = std::ranges::find_if(graph.nodes, [&](const Node& candidate) {
        return !candidate.outputs.empty() && candidate.outputs[0] == bias->made_by;
      });
      if (node == graph.nodes.end()) {
        throw Error("the plan's bias " + quote_text(bias->value) + " is not in the graph");
      }
      const auto index = node - graph.nodes.begin();
      const std::string made = add_quantized_bias(graph, plan, *bias);
      graph.nodes[static_cast<std::size_t>(index)].inputs[bias->input] = made;
    }
  }
}

/// Computes the scale of each vector along the last axis: its largest magnitude over the largest code. Zero
/// vectors get a tiny scale, not 0, which cannot divide.
std::string add_token_scale(Graph& graph, const PlannedEdge& edge, const std::string& requested,
                            std::vector<Node>& nodes) {
  constexpr float kLeast = 0x1p-100F;
  const Value* known = graph.find(edge.value);
  Value like{.type = ElementType::kFloat, .shape = known ? known->shape : std::nullopt, .annotations = {}};
  const std::int64_t opset = graph.opset();
  const auto add = [&](const char* what, const char* op, std::vector<std::string> inputs,
                       decltype(Node::attributes) attributes = {}) {
    const std::string made = add_value(graph, requested + what, like);
    Node node{.name = graph.unused_node_name(made), .op = op, .version = opset};
    node.inputs = std::move(inputs);
    node.outputs = {made};
    node.attributes = std::move(attributes);
    nodes.push_back(std::move(node));
    return made;
  };
  const std::string magnitude = add("_magnitude", "Abs", {edge.value});
  if (like.shape && !like.shape->empty()) like.shape->back() = Dim(1);
  constexpr std::int64_t kAxesAreInput = 18;
  const bool by_input = opset >= kAxesAreInput;
  std::vector<std::string> reduced{magnitude};
  decltype(Node::attributes) how{{"keepdims", std::int64_t{1}}};
  if (by_input) {
    reduced.push_back(
        add_constant(graph, requested + "_last", Tensor::ints({1}, std::array<std::int64_t, 1>{-1})));
  } else {
    how["axes"] = std::vector<std::int64_t>{-1};
  }
  const std::string most = add("_absmax", "ReduceMax", std::move(reduced), std::move(how));
  const std::string least = add_constant(graph, requested + "_least", Tensor::scalar(kLeast));
  const std::string bounded = add("_absmax_above_0", "Max", {most, least});
  const NumberFormat& number = *edge.spec.number;
  const float greatest = token_greatest(number, edge.spec.range);
  const std::string divisor = add_constant(graph, requested + "_greatest", Tensor::scalar(greatest));
  return add("_scale", "Div", {bounded, divisor});
}

}  // namespace

std::vector<Node> activation_quantizer(Graph& graph, const PlannedEdge& edge, const std::string& requested) {
  const NumberFormat& number = *edge.spec.number;
  const auto add = [&](const char* what, float value) {
    return add_constant(graph, requested + what, Tensor::scalar(value));
  };
  std::vector<Node> nodes;
  const std::string scale =
      edge.spec.is_dynamic() ? add_token_scale(graph, edge, requested, nodes) : add("_scale", edge.scale);
  Node node;
  if (number.grid == Grid::kBinary) {
    node = bipolar_quant_node("", scale);
  } else if (number.grid == Grid::kMinifloat) {
    node = float_quant_node({"", scale, add("_exponent_bits", static_cast<float>(number.exponent_bits)),
                             add("_mantissa_bits", static_cast<float>(number.mantissa_bits)),
                             add("_exponent_bias", static_cast<float>(number.bias)),
                             add("_max_val", number.largest_value(edge.spec.range))},
                            rounding_of(edge.spec));
  } else {
    const std::string zero = add("_zeropt", shift_of(edge.spec, edge.zero_point));
    node = quant_node({"", scale, zero, add("_bits", static_cast<float>(number.bits))}, number.is_signed,
                      is_narrow(edge.spec), rounding_of(edge.spec));
  }
  import_qonnx(graph, node);
  nodes.push_back(std::move(node));
  return nodes;
}

QuantizedConstant codes_of(const PlannedConstant& constant, const Graph& graph, int threads) {
  if (constant.rounded) return *constant.rounded;
  const auto found = graph.initializers.find(constant.value);
  if (found == graph.initializers.end())
    throw Error("the plan's constant " + quote_text(constant.value) + " is not in the graph");
  const Tensor& value = found->second;
  if (value.rank() == 0)
    return quantize_constant(*constant.spec, value.reshaped({1}), 0, constant.value, threads);
  const MatrixAxes axes =
      constant.axes.output < static_cast<std::size_t>(value.rank()) ? constant.axes : MatrixAxes();
  return quantize_constant(*constant.spec, value, axes, constant.value, threads);
}

BiasValues quantize_bias(const Tensor& bias, const QuantizedConstant& weight, float input_scale, int bits) {
  const RowDecoder decoder(weight.tensor->view());
  const std::uint64_t blocks = weight.tensor->layout.blocks();
  const std::vector<float> values = bias.to_floats();
  std::vector<float> scales;
  for (std::size_t i = 0; i < (blocks > 1 ? values.size() : 1); ++i) {
    // A ConvTranspose of several groups has the same scales in each of them.
    float scale = input_scale * decoder.scale(i % blocks);
    if (!(scale > 0)) scale = blocks > 1 && values[i] != 0 ? std::fabs(values[i]) : 1.0F;
    scales.push_back(scale);
  }
  const double most = std::ldexp(1.0, bits - 1) - 1, least = -std::ldexp(1.0, bits - 1);
  BiasValues result;
  std::vector<float> made;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float scale = scales[scales.size() > 1 ? i : 0];
    const double code = std::nearbyint(static_cast<double>(values[i] / scale));
    result.saturated += code < least || code > most;
    made.push_back(static_cast<float>(std::clamp(code, least, most)) * scale);
  }
  std::vector<std::int64_t> shape;
  if (scales.size() > 1) {
    shape.assign(bias.shape().size(), 1);
    shape.back() = static_cast<std::int64_t>(scales.size());
  }
  result.values = Tensor::floats(bias.shape(), made);
  result.scale = Tensor::floats(shape, scales);
  return result;
}

Graph apply(Graph graph, const QuantPlan& plan, const ApplyOptions& options) {
  for (const auto& [name, numbers] : plan.final_floats) graph.initializers.at(name) = numbers;
  std::map<std::string, Tensor> weights;  // float weights of biases
  for (const PlannedBias& bias : plan.biases)
    if (const Tensor* weight = graph.constant(bias.weight)) weights[bias.weight] = *weight;
  quantize_constants(graph, plan, options.threads);
  std::vector<BiasUse> biases = make_room(graph, plan, weights);
  if (options.biases) *options.biases = std::move(biases);
  for (const PlannedEdge& edge : plan.edges) quantize_edge(graph, plan, edge);
  quantize_biases(graph, plan);
  graph = sorted(std::move(graph));
  if (plan.kv_cache) graph = with_quantized_cache(std::move(graph), *plan.kv_cache);
  drop_unused(graph);
  return graph;
}

}  // namespace crumb::graph

#include "export/hls4ml/layer_types.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/files/text.h"
#include "export/lint/subject.h"
#include "formats/number/power_of_two.h"
#include "graph/facts/infer_datatypes.h"

namespace crumb::exporting::hls4ml {
namespace {

using analysis::ProductLayer;

constexpr std::size_t kMostNamed = 20;

bool is_one_of(const Node& node, std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [&](const char* name) { return node.op == name; });
}

/// "ap_fixed<8,4,AP_RND_CONV,AP_SAT_SYM>": what the quantizer makes of any number.
std::string type_of_quantizer(const Node& node, const FixedRange& range, int bits) {
  const bool is_signed = node.int_or("signed", 1) != 0, is_narrow = node.int_or("narrow", 0) != 0;
  return std::string(is_signed ? "ap_fixed<" : "ap_ufixed<") + std::to_string(bits) + "," +
         std::to_string(bits + range.exponent) +
         (node.text_or("rounding_mode", "ROUND") == "FLOOR" ? ",AP_TRN," : ",AP_RND_CONV,") +
         (is_narrow ? "AP_SAT_SYM>" : "AP_SAT>");
}

class Typing {
 public:
  Typing(const Graph& graph, const analysis::GivenRanges& given)
      : graph_(graph),
        subject_(graph, Profile::kHls4ml),
        constants_(graph),
        types_(graph::infer_data_types(graph, constants_, graph::TypeRules::kExact,
                                       analysis::as_numbers(graph, given))),
        products_(graph, given) {
    for (std::size_t i = 0; i < products_.size(); ++i) layers_.emplace(products_.node(i).name, i);
  }

  NetworkTypes run() {
    for (const std::string& input : graph_.inputs) type_input(input);
    for (const Node& node : graph_.nodes) {
      if (node.outputs.empty() || constants_.is_constant(node.outputs[0])) continue;
      type_node(node);
    }
    return std::move(found_);
  }

 private:
  void fail(const std::string& what, const std::string& why) { found_.inexact.push_back(what + ": " + why); }

  /// The levels of a value times its scale, where that is a power of two.
  std::optional<FixedRange> levels_of(const std::string& value) const {
    const auto found = types_.find(value);
    if (found == types_.end() || !found->second.levels || !found->second.levels->scale) return {};
    const graph::Levels& levels = *found->second.levels;
    const auto exponent = exponent_of(*levels.scale * levels.unit());
    if (!exponent || !levels.positive) return {};
    return FixedRange{*exponent, levels.low * *levels.scale, levels.high * *levels.scale};
  }

  bool has_zero_point(const Node& quantizer) const {
    return uniform(subject_.constant(quantizer, kZeropt)) != 0.0F;
  }

  /// Those that compute with a value, beyond what only moves it.
  void consumers_of(const std::string& value, std::vector<const Node*>& consumers, bool& leaves) const {
    leaves |= std::ranges::find(graph_.outputs, value) != graph_.outputs.end();
    for (const std::size_t i : subject_.links().consumers(value)) {
      const Node& node = graph_.nodes[i];
      if (is_one_of(node, {"Transpose", "Reshape", "Flatten", "Identity", "Dropout"})) {
        consumers_of(output_of(node), consumers, leaves);
      } else {
        consumers.push_back(&node);
      }
    }
  }

  static InputSpan span_of(const FixedRange& range, bool is_quantized_first) {
    return {range.low, range.high, std::ldexp(1.0, range.exponent), is_quantized_first};
  }

  void type_input(const std::string& input) {
    std::set<std::string> types;
    std::optional<FixedRange> taken;
    bool others = false;
    std::vector<const Node*> consumers;
    consumers_of(input, consumers, others);
    for (const Node* node : consumers) {
      const bool is_plain = is_quant(*node) && !has_zero_point(*node);
      const auto range = is_plain ? levels_of(output_of(*node)) : std::nullopt;
      const auto bits = is_quant(*node) ? uniform(subject_.constant(*node, kBits)) : std::nullopt;
      if (range && bits) {
        types.insert(type_of_quantizer(*node, *range, static_cast<int>(*bits)));
        taken = range;
      } else {
        others = true;
      }
    }
    if (!others && types.size() == 1) {
      found_.inputs[input] = *types.begin();
      found_.input_spans[input] = span_of(*taken, true);
      return;
    }
    if (const auto range = levels_of(input); range && range->is_exact_in_float32()) {
      ranges_[input] = *range;
      found_.input_spans[input] = span_of(*range, false);
      found_.inputs[input] = narrowest_type(*range);
      return;
    }
    fail("input " + quote_text(input), others ? "its numbers are not known before something computes with "
                                                "them; quantize it first (inputs: uint8 in "
                                                "a recipe, --inputs), or give crumb export --input-range " +
                                                    printable(input) + "=LOW:HIGH for whole numbers"
                                              : "it is quantized in several ways, and whole numbers are not "
                                                "known; give crumb export --input-range " +
                                                    printable(input) + "=LOW:HIGH");
  }

  /// What a value can be; nothing where that is not known, which has been said.
  std::optional<FixedRange> range_of_value(const std::string& value) const {
    if (constants_.is_constant(value)) {
      const auto constant = constants_.find(value);
      return constant ? range_of(constant->values) : std::nullopt;
    }
    const auto found = ranges_.find(value);
    return found == ranges_.end() ? std::nullopt : std::optional(found->second);
  }

  bool is_constant(const Node& node, std::size_t i) const {
    return i < node.inputs.size() && constants_.is_constant(node.inputs[i]);
  }

  /// The only node that takes the node's output, which is no output of the graph.
  const Node* sole_consumer(const Node& node) const {
    const std::string& output = output_of(node);
    const auto& consumers = subject_.links().consumers(output);
    const bool leaves = std::ranges::find(graph_.outputs, output) != graph_.outputs.end();
    return consumers.size() == 1 && !leaves ? &graph_.nodes[consumers[0]] : nullptr;
  }

  bool goes_into_quantizer(const Node& node) const {
    const Node* next = sole_consumer(node);
    return next && is_quant(*next);
  }

  /// The Add of a constant behind a layer that hls4ml merges into it; null where there is none.
  const Node* fused_add(const Node& node) const {
    const Node* next = sole_consumer(node);
    const bool adds = next && next->is("Add") && next->inputs.size() == 2;
    return adds && is_constant(*next, 0) != is_constant(*next, 1) ? next : nullptr;
  }

  void type_node(const Node& node) {
    if (fused_.contains(node.name)) return;
    if (is_quant(node)) return type_quantizer(node);
    if (const auto layer = layers_.find(node.name); layer != layers_.end())
      return type_layer(node, products_.layer(layer->second));
    std::vector<FixedRange> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto range = node.has_input(i) ? range_of_value(node.inputs[i]) : std::nullopt;
      if (!range && (i == 0 || is_one_of(node, {"Add", "Sub", "Mul", "Max", "Min", "Concat", "Sum"}))) return;
      inputs.push_back(range.value_or(FixedRange{}));
    }
    const auto made = range_made(node, inputs);
    if (!made) return fail(text_of(node), "hls4ml computes it in other numbers than ONNX");
    keep(node, *made);
    type_others(node, inputs, *made);
  }

  void type_quantizer(const Node& node) {
    const auto range = has_zero_point(node) ? std::nullopt : levels_of(output_of(node));
    if (!range) return fail(text_of(node), "its scale is not one power of two with a zero point of 0");
    ranges_[output_of(node)] = *range;
  }

  /// Notes what a node makes, unless float32 rounds it.
  bool keep(const Node& node, const FixedRange& range) {
    if (!range.is_exact_in_float32()) {
      fail(text_of(node), "its results take more than float32's 24 bits (" + narrowest_type(range) +
                              "), so that no two programs agree on the last");
      return false;
    }
    ranges_[output_of(node)] = range;
    return true;
  }

  static std::optional<FixedRange> range_made(const Node& node, const std::vector<FixedRange>& in) {
    if (is_one_of(node, {"MaxPool", "Reshape", "Flatten", "Transpose", "Identity", "Dropout", "GlobalMaxPool",
                         "Squeeze", "Unsqueeze"})) {
      return in[0];
    }
    if (node.is("Resize") && node.text_or("mode", "nearest") == "nearest") return in[0];
    if (node.is("Pad")) return joined(in[0], FixedRange{in[0].exponent, 0, 0});
    if (node.is("Relu"))
      return FixedRange{in[0].exponent, std::max(in[0].low, 0.0), std::max(in[0].high, 0.0)};
    if (node.is("Concat")) {
      FixedRange all = in[0];
      for (const FixedRange& one : in) all = joined(all, one);
      return all;
    }
    if (in.size() != 2) return {};
    if (node.is("Add")) return sum(in[0], in[1]);
    if (node.is("Sub")) return sum(in[0], negated(in[1]));
    if (node.is("Mul")) return product(in[0], in[1]);
    const int exponent = std::min(in[0].exponent, in[1].exponent);
    if (node.is("Max"))
      return FixedRange{exponent, std::max(in[0].low, in[1].low), std::max(in[0].high, in[1].high)};
    if (node.is("Min"))
      return FixedRange{exponent, std::min(in[0].low, in[1].low), std::min(in[0].high, in[1].high)};
    return {};
  }

  /// What is no layer with weights: results, and constants of what scales and shifts.
  void type_others(const Node& node, const std::vector<FixedRange>& inputs, const FixedRange& made) {
    if (!is_one_of(node, {"Relu", "Add", "Sub", "Mul", "Max", "Min"}))
      return;  // the others give what they take
    LayerTypes layer{.node = node.name};
    const std::size_t constant = is_constant(node, 1) ? 1 : 0;
    if (inputs.size() == 2 && is_constant(node, constant)) {
      const FixedRange& number = inputs[constant];
      const bool is_taken_from = node.is("Sub") && constant == 0;  // number - x
      const double sign = is_taken_from ? -1 : 1;
      layer.scale = node.is("Mul") ? number : FixedRange{0, sign, sign};
      layer.bias = node.is("Mul")                     ? FixedRange{}
                   : node.is("Sub") && !is_taken_from ? negated(number)
                                                      : number;
      layer.result = made;
    } else if (!goes_into_quantizer(node)) {
      layer.result = made;
    }
    if (layer.result) found_.layers.push_back(std::move(layer));
  }

  /// The numbers of a bias, one for each channel or one for all; zero where there is none.
  std::optional<std::vector<double>> bias_values(const std::string& value, std::size_t channels) const {
    const auto constant = constants_.find(value);
    if (!constant) return {};
    std::vector<double> values = constant->values;
    if (values.size() == 1) values.assign(channels, values[0]);
    return values.size() == channels ? std::optional(values) : std::nullopt;
  }

  /// Whether hls4ml has a type for the codes of both operands; false after it said why not.
  bool has_codes(const Node& node, const ProductLayer& product) {
    const auto no = [&](const Node& of, const std::string& why) {
      fail(text_of(of), why);
      return false;
    };
    if (!product.failure().empty() || !product.has_codes() || !product.one_scale || !product.input_scale)
      return no(node, product.failure().empty() ? "its operands are no integers times one scale"
                                                : product.failure());
    const Node* quantizer = subject_.source(node, 1);
    if (quantizer && is_bipolar(*quantizer))
      return no(*quantizer, "weights of one bit have types of their own there, which are not looked at yet");
    if (quantizer && has_zero_point(*quantizer)) return no(*quantizer, "the zero point of a weight is not 0");
    return true;
  }

  void type_layer(const Node& node, ProductLayer product) {
    if (!has_codes(node, product)) return;
    product.bias_codes.clear();  // its numbers are looked at instead
    const auto sums = product.worst_sums(0);
    if (!sums) return fail(text_of(node), "its sums take more than 63 bits");
    const bool one_scale =
        std::ranges::all_of(product.scale, [&](double scale) { return scale == product.scale[0]; });
    const auto input = exponent_of(*product.input_scale * product.input_unit);
    std::vector<std::optional<int>> weights, steps;  // of each channel's codes and sums, as exponents
    for (std::size_t c = 0; c < product.channels; ++c) {
      weights.push_back(
          exponent_of(product.unit * (product.scale.empty() ? 1 : product.scale[one_scale ? 0 : c])));
      steps.push_back(input && weights[c] ? std::optional(*input + *weights[c]) : std::nullopt);
    }
    // Scales that are one power of two are the types' own; others hls4ml multiplies by behind the sum of
    // codes.
    const bool is_fixed_point = one_scale && !steps.empty() && steps[0];
    const int inside = input.value_or(0) + (one_scale && !weights.empty() ? weights[0].value_or(0) : 0);
    const Node* add = node.has_input(2) ? nullptr : fused_add(node);
    const Node& last = add ? *add : node;
    const auto bias = bias_of(node, add, product.channels);
    if (!bias) return fail(text_of(last), "its bias is not one finite number for each channel");
    LayerTypes layer{.node = node.name};
    std::optional<FixedRange> results;  // nothing where a scale is no power of two
    for (std::size_t c = 0; c < product.channels; ++c) {
      const auto [low, high] = extremes((*sums)[c]);
      const FixedRange codes{inside, std::ldexp(low, inside), std::ldexp(high, inside)};
      const int step = steps[c].value_or(0);
      const FixedRange whole =
          sum({step, std::ldexp(low, step), std::ldexp(high, step)}, range_of({&(*bias)[c], 1}).value());
      const FixedRange& held = is_fixed_point ? whole : codes;
      layer.accum = layer.accum ? joined(*layer.accum, held) : held;
      results = results ? joined(*results, whole) : whole;
    }
    if (!layer.accum) return fail(text_of(node), "it has no channels");
    if (add) fused_.insert(add->name);
    const bool is_exact = std::ranges::all_of(steps, [](const auto& step) { return step.has_value(); });
    const bool holds = is_exact && keep(last, *results);
    if (is_fixed_point) {
      if (!add && !goes_into_quantizer(node)) layer.result = *results;
      found_.layers.push_back(std::move(layer));
      return;
    }
    layer.result = layer.accum;
    found_.layers.push_back(std::move(layer));
    if (!is_exact) return fail(text_of(node), "the scale of its weight or its input is no power of two");
    if (!holds) return;
    const Node* quantizer = subject_.source(node, 1);
    found_.layers.push_back({.node = add         ? add->name
                                     : quantizer ? quantizer->name
                                                 : node.name,
                             .result = results,
                             .scale = range_of(product.scale),
                             .bias = range_of(*bias)});
  }

  /// The bias of each channel; zeros where there is none.
  std::optional<std::vector<double>> bias_of(const Node& node, const Node* add, std::size_t channels) const {
    if (!node.has_input(2) && !add) return std::vector<double>(channels, 0.0);
    const auto values =
        bias_values(add ? add->inputs[is_constant(*add, 1) ? 1 : 0] : node.inputs[2], channels);
    return values && range_of(*values) ? values : std::nullopt;
  }

  static std::pair<double, double> extremes(const graph::ChannelSums& channel) {
    double low = 0, high = 0;
    for (const WorstSums& sum : channel) {
      low += static_cast<double>(sum.min);
      high += static_cast<double>(sum.max);
    }
    return {low, high};
  }

  const Graph& graph_;
  Subject subject_;
  graph::ConstantValues constants_;
  std::map<std::string, graph::ValueType> types_;
  analysis::ProductLayers products_;
  std::map<std::string, std::size_t> layers_;  ///< indices into products_, by the name of the node
  std::map<std::string, FixedRange> ranges_;   ///< of values
  std::set<std::string> fused_;                ///< nodes that are part of the layer before
  NetworkTypes found_;
};

}  // namespace

NetworkTypes types_of(const Graph& graph, const analysis::GivenRanges& given) {
  return Typing(graph, given).run();
}

void refuse_inexact(const NetworkTypes& types) {
  if (types.inexact.empty()) return;
  std::string text = "hls4ml would not compute the same numbers:";
  for (std::size_t i = 0; i < types.inexact.size() && i < kMostNamed; ++i) text += "\n  " + types.inexact[i];
  if (types.inexact.size() > kMostNamed)
    text += "\n  and " + std::to_string(types.inexact.size() - kMostNamed) + " more";
  throw Error(text);
}

}  // namespace crumb::exporting::hls4ml

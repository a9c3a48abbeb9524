#include "analysis/accumulator/layers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "analysis/accumulator/computed_terms.h"
#include "analysis/accumulator/lay_out_weight.h"
#include "analysis/accumulator/operands.h"
#include "analysis/accumulator/weight_codes.h"
#include "base/files/text.h"
#include "graph/facts/bind_shapes.h"
#include "graph/facts/constant_values.h"
#include "graph/facts/infer_datatypes.h"
#include "graph/facts/lift_quantized.h"
#include "graph/qonnx/quantized_constants.h"
#include "graph/strided_index.h"

namespace crumb::analysis {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr double kMostInteger = 4503599627370496;  // 2^52
constexpr double kSameScale = 1e-5;                // relative: float32 products of scales

}  // namespace

graph::InputRanges as_numbers(const graph::Graph& graph, const GivenRanges& given) {
  graph::InputRanges ranges;
  for (const auto& [name, range] : given) {
    if (std::ranges::find(graph.inputs, name) == graph.inputs.end()) {
      std::string names;
      for (const std::string& input : graph.inputs) names += (names.empty() ? "" : ", ") + quote_text(input);
      throw usage_error("a range is given for " + quote_text(name) +
                        ", which is no input of the graph; its inputs are " + names);
    }
    ranges[name] = {static_cast<double>(range.low), static_cast<double>(range.high)};
  }
  return ranges;
}

struct ProductLayers::Data {
  Data(const graph::Graph& graph, const GivenRanges& given)
      : lifted(lift_quantized(without_claims(sorted(graph)))),
        lowered(resolve_shapes(lower_or_fold_quantized(lifted))),
        constants(lowered),
        types(infer_data_types(lowered, constants, graph::TypeRules::kExact, as_numbers(lowered, given))),
        links(lowered),
        weights(lifted, lowered, constants, types),
        operands(lowered, constants, types, links) {
    for (std::size_t i = 0; i < lowered.nodes.size(); ++i) find_products(i);
  }

  struct Product {
    std::size_t node = 0;
    const graph::ProductRule* rule = nullptr;  ///< nothing: the operator is not known
    /// The operand that is a constant: 0 or 1.
    std::optional<std::size_t> weight_at = std::nullopt;
  };

  void find_products(std::size_t at);
  const graph::Node& node_of(const Product& product) const { return lowered.nodes[product.node]; }
  /// The value of operand 0 or 1; "" where the node makes it inside.
  std::string operand(const Product& product, std::size_t which) const;
  std::string zero_of(const Product& product, std::size_t which) const;

  void take_codes(const Product& product, ProductLayer& layer) const;
  void take_bits(const Product& product, ProductLayer& layer) const;
  Result<WeightCodes> codes_of(const Product& product) const;
  Result<WeightCodes> integers_of(const Product& product) const;
  void take_input(const Product& product, ProductLayer& layer) const;
  void take_computed(const Product& product, ProductLayer& layer) const;
  void take_bias(const Product& product, ProductLayer& layer) const;
  std::string bias_of(const Product& product, const ProductLayer& layer) const;
  std::string added_to(const Product& product) const;
  std::string added_behind(const Product& product) const;
  bool lies_on_channels(const graph::Node& node, const std::string& bias, const ProductLayer& layer) const;

  const graph::Graph lifted, lowered;
  const graph::ConstantValues constants;
  const std::map<std::string, graph::ValueType> types;
  const graph::Links links;
  const WeightReader weights;
  const OperandReader operands;
  std::vector<Product> products;
};

void ProductLayers::Data::find_products(std::size_t at) {
  const graph::Node& node = lowered.nodes[at];
  const auto is_constant = [&](const std::string& value) { return constants.is_constant(value); };
  if (std::ranges::all_of(node.outputs, [&](const auto& out) { return out.empty() || is_constant(out); }))
    return;
  if (why_unknown_operator(node)) products.push_back({.node = at});
  if (node.is("Einsum") && node.inputs.size() == 1) return;  // moves, and sums of one operand
  for (const graph::ProductRule& rule : graph::traits_of(node).products) {
    Product product{.node = at, .rule = &rule};
    const auto missing = [&](std::size_t input) {
      return input != graph::kNoInput && !node.has_input(input);
    };
    if (missing(rule.a) || missing(rule.b)) continue;
    const std::string a = operand(product, 0), b = operand(product, 1);
    const bool first = !a.empty() && is_constant(a), second = !b.empty() && is_constant(b);
    if (first && second) continue;
    const bool takes_either = rule.terms == graph::Terms::kMatrix || rule.terms == graph::Terms::kEquation;
    const bool takes_none = rule.terms == graph::Terms::kHeads || rule.terms == graph::Terms::kSquares;
    if (second && !takes_none) product.weight_at = 1;
    if (first && takes_either) product.weight_at = 0;
    products.push_back(product);
  }
}

std::string ProductLayers::Data::operand(const Product& product, std::size_t which) const {
  const std::size_t at = which == 0 ? product.rule->a : product.rule->b;
  return at == graph::kNoInput ? std::string() : node_of(product).inputs.at(at);
}

std::string ProductLayers::Data::zero_of(const Product& product, std::size_t which) const {
  const std::size_t at = which == 0 ? product.rule->a_zero : product.rule->b_zero;
  return node_of(product).has_input(at) ? node_of(product).inputs[at] : std::string();
}

namespace {

/// The codes of a constant that holds whole numbers; `zero` broadcasts to it.
Result<WeightCodes> whole(const graph::ConstantValue& constant,
                          const std::optional<graph::ConstantValue>& zero = {}) {
  WeightCodes made{.shape = constant.shape, .codes = {}, .group = {}, .scale = {1}};
  auto index = graph::StridedIndex::broadcast(constant.shape, zero ? zero->shape : Ints());
  if (!index) return Failure{"its zero points do not fit its weights"};
  for (const double value : constant.values) {
    const double code = value - (zero ? zero->values.at(index->at()) : 0);
    if (!(std::fabs(code) <= kMostInteger) || std::trunc(code) != code)
      return Failure{"its weights are no whole numbers"};
    made.codes.push_back(static_cast<std::int64_t>(code));
    index->next();
  }
  return made;
}

}  // namespace

/// Of an integer operator's constant: what it holds, less its zero point.
Result<WeightCodes> ProductLayers::Data::integers_of(const Product& product) const {
  const std::size_t at = *product.weight_at;
  const auto values = constants.find(operand(product, at));
  const std::string zero = zero_of(product, at);
  auto zeros = zero.empty() ? std::nullopt : constants.find(zero);
  if (!values) return Failure{"its weights cannot be computed"};
  if (!zero.empty() && !zeros)
    return Failure{"the zero point " + quote_text(zero) + " of its weights is computed"};
  if (zeros && zeros->shape.size() == 1) {  // one for each row of a, column of b, or channel of a kernel
    const bool is_kernel = product.rule->terms == graph::Terms::kConvolution;
    if (is_kernel) zeros->shape.resize(values->shape.size(), 1);
    if (!is_kernel && at == 0) zeros->shape.push_back(1);
  }
  return whole(*values, zeros);
}

Result<WeightCodes> ProductLayers::Data::codes_of(const Product& product) const {
  if (product.rule->integers) return integers_of(product);
  return weights.find(operand(product, *product.weight_at));
}

void ProductLayers::Data::take_codes(const Product& product, ProductLayer& layer) const {
  auto found = codes_of(product);
  if (found.ok()) {
    layer.weight_failure =
        lay_out_weight(node_of(product), *product.rule, *product.weight_at, found.take(), layer);
    return;
  }
  layer.weight_failure = found.failure().message;
  layer.is_float = layer.weight_failure == kNoWeightQuantizer;
}

/// Terms that are whether two bits are the same: 0 or 1, whatever the bits of the weight are.
void ProductLayers::Data::take_bits(const Product& product, ProductLayer& layer) const {
  const bool weight_is_bits =
      std::ranges::all_of(layer.codes, [](std::int64_t bit) { return bit == 0 || bit == 1; });
  const auto is_bits = [](std::optional<IntegerRange> range) {
    return !range || (range->low >= 0 && range->high <= 1);
  };
  if (!weight_is_bits || !is_bits(layer.weight_range) || !is_bits(layer.input_range)) {
    layer.weight_failure = text_of(node_of(product)) + " takes bits, 0 and 1, found other numbers";
    layer.input_range.reset();
    return;
  }
  if (!layer.input_range) return;
  std::ranges::fill(layer.codes, 1);
  layer.input_range = IntegerRange{0, 1};
  layer.input_cases = {IntegerRange{0, 1}};
  if (layer.term) layer.term = IntegerRange{0, 1};
}

void ProductLayers::Data::take_input(const Product& product, ProductLayer& layer) const {
  const std::size_t at = 1 - *product.weight_at;
  layer.input = operand(product, at);
  const graph::Node& node = node_of(product);
  const bool has_rows =
      product.rule->terms == graph::Terms::kMatrix || product.rule->terms == graph::Terms::kGates;
  const bool sums_over_last = at == 0 && has_rows && node.int_or("transA", 0) == 0;
  const OperandRange found =
      operands.find(layer.input, zero_of(product, at), sums_over_last, product.rule->integers);
  layer.input_failure = found.failure;
  if (found.cases.empty()) return;
  layer.input_range = found.hull();
  layer.input_cases = found.cases;
  layer.input_unit = found.unit;
  layer.input_scale = found.scale;
  layer.input_assumed = found.assumed;
  layer.range_from = operands.changed_by(layer.input);
}

/// Both operands are computed.
void ProductLayers::Data::take_computed(const Product& product, ProductLayer& layer) const {
  const graph::Node& node = node_of(product);
  const graph::ProductRule& rule = *product.rule;
  layer.input = operand(product, 0);
  layer.weight = operand(product, 1);
  const bool sums_over_last = rule.terms == graph::Terms::kMatrix && node.int_or("transA", 0) == 0;
  const OperandRange a = operands.find(layer.input, zero_of(product, 0), sums_over_last, rule.integers),
                     b = operands.find(layer.weight, zero_of(product, 1), false, rule.integers);
  for (const OperandRange* one : {&a, &b}) {
    if (!one->cases.empty()) continue;
    layer.is_float = rule.terms == graph::Terms::kSquares;  // of one value, which nothing quantizes
    layer.input_failure = one->failure;
    return;
  }
  const auto terms = count_terms(lowered, node, rule);
  if (!terms.ok()) {
    layer.input_failure = terms.failure().message;
    return;
  }
  layer.length = static_cast<std::size_t>(terms.value());
  layer.range_from = operands.changed_by(layer.input);
  layer.input_range = a.hull();
  layer.input_cases = a.cases;
  layer.input_unit = a.unit;
  layer.input_scale = a.scale;
  layer.input_assumed = a.assumed || b.assumed;
  layer.weight_range = b.hull();
  layer.unit = b.unit;
  const auto term = term_of(a.cases, b.cases, rule.terms == graph::Terms::kSquares);
  if (!term) {
    layer.input_range.reset();
    layer.input_failure = "a product of its operands takes more than 64 bits";
    return;
  }
  layer.term = term;
  layer.one_scale = b.scale.has_value();
  layer.kind = rule.terms == graph::Terms::kConvolution  ? ProductLayer::Kind::kConvolution
               : rule.terms == graph::Terms::kTransposed ? ProductLayer::Kind::kTransposed
                                                         : ProductLayer::Kind::kMatrix;
  if (layer.kind != ProductLayer::Kind::kMatrix)
    layer.groups = std::max<std::int64_t>(1, node.int_or("group", 1));
  // All results are alike but for their bias: a channel for each number of that.
  layer.channels = 1;
  const std::string own = added_to(product);
  const auto bias = own.empty() ? std::nullopt : constants.find(own);
  const auto columns = count_channels(lowered, node, rule);
  if (bias && columns == static_cast<std::int64_t>(bias->values.size())) layer.channels = bias->values.size();
  layer.scale.assign(layer.channels, b.scale.value_or(1));
}

/// What is added to a product by the node itself, or, where it is a constant on the channels, by the Add that
/// alone takes its result; "" where nothing is.
std::string ProductLayers::Data::bias_of(const Product& product, const ProductLayer& layer) const {
  const graph::Node& node = node_of(product);
  const std::string value = added_to(product);
  const bool is_own = node.has_input(product.rule->bias);
  return value.empty() || is_own || lies_on_channels(node, value, layer) ? value : std::string();
}

/// The node's own bias, or what added_behind() says. What is added behind an alpha is added to other numbers
/// than the sums, be it one node or, as QONNX has it, three: "".
std::string ProductLayers::Data::added_to(const Product& product) const {
  const graph::Node& node = node_of(product);
  if (node.float_or("alpha", 1) != 1) return {};
  return node.has_input(product.rule->bias) ? node.inputs[product.rule->bias] : added_behind(product);
}

/// The constant that an Add adds to what a matrix product or convolution gives, or "".
std::string ProductLayers::Data::added_behind(const Product& product) const {
  const graph::Node& node = node_of(product);
  const graph::Terms terms = product.rule->terms;
  const bool has_channels = terms == graph::Terms::kMatrix || terms == graph::Terms::kConvolution ||
                            terms == graph::Terms::kTransposed;
  if (!has_channels || product.rule->requantizes) return {};
  const auto consumers = links.consumers(node.outputs[0]);
  if (consumers.size() != 1 || links.is_output(node.outputs[0])) return {};
  const graph::Node& add = lowered.nodes[consumers[0]];
  if (!add.is("Add") || add.inputs.size() != 2) return {};
  const std::string& other = add.inputs[add.inputs[0] == node.outputs[0] ? 1 : 0];
  return constants.is_constant(other) ? other : std::string();
}

/// Whether a constant that is added to a result has one number for each channel, or one for all.
bool ProductLayers::Data::lies_on_channels(const graph::Node& node, const std::string& bias,
                                           const ProductLayer& layer) const {
  const auto constant = constants.find(bias);
  if (!constant) return false;
  if (constant->values.size() == 1) return true;
  if (constant->values.size() != layer.channels) return false;
  std::size_t from_last = layer.weight_first ? 1 : 0;
  if (layer.kind != ProductLayer::Kind::kMatrix && node.domain != graph::kChannelsLastDomain) {
    const auto rank = lowered.rank_of(node.inputs.at(layer.rule->b));
    if (!rank || *rank < 2) return false;
    from_last = *rank - 2;
  }
  return constant->shape.size() > from_last &&
         constant->shape[constant->shape.size() - 1 - from_last] == static_cast<std::int64_t>(layer.channels);
}

void ProductLayers::Data::take_bias(const Product& product, ProductLayer& layer) const {
  const graph::Node& node = node_of(product);
  const std::string value = bias_of(product, layer);
  if (value.empty()) return;
  const auto constant = constants.find(value);
  if (constant && std::ranges::all_of(constant->values, [](double b) { return b == 0; })) return;
  layer.bias = graph::BiasPlace::kAfter;
  if (product.rule->terms == graph::Terms::kGates) return;  // it is added to both of the node's products
  if (layer.kind == ProductLayer::Kind::kMatrix && !lies_on_channels(node, value, layer)) return;
  if (!layer.input_scale || !layer.one_scale || node.float_or("beta", 1) != 1) return;
  // A QLinearConv's are sums already; else what a quantizer makes.
  const auto found = product.rule->integers && constant ? whole(*constant) : weights.find(value);
  if (!found.ok()) return;
  const WeightCodes& bias = found.value();
  if (bias.codes.size() != layer.channels && bias.codes.size() != 1) return;
  const double units = bias.unit / (layer.unit * layer.input_unit);
  std::vector<std::int64_t> codes;
  for (std::size_t c = 0; c < layer.channels; ++c) {
    const std::size_t at = bias.codes.size() == 1 ? 0 : c;
    const double scale = bias.scale.at(bias.group.empty() ? 0 : bias.group[at]);
    const double code = static_cast<double>(bias.codes[at]) * units;
    if (!(std::fabs(scale / (*layer.input_scale * layer.scale[c]) - 1) <= kSameScale)) return;
    if (std::trunc(code) != code || std::fabs(code) > kMostInteger) return;
    codes.push_back(static_cast<std::int64_t>(code));
  }
  layer.bias = graph::BiasPlace::kInside;
  layer.bias_codes = std::move(codes);
  if (!node.has_input(product.rule->bias))
    layer.bias_sum = lowered.nodes[links.consumers(node.outputs[0])[0]].outputs[0];
}

ProductLayers::ProductLayers(const graph::Graph& graph, const GivenRanges& given)
    : data_(std::make_unique<const Data>(graph, given)) {}

ProductLayers::~ProductLayers() = default;

std::size_t ProductLayers::size() const { return data_->products.size(); }

const graph::Node& ProductLayers::node(std::size_t i) const { return data_->node_of(data_->products[i]); }

bool ProductLayers::has_constant_weight(std::size_t i) const {
  return data_->products[i].weight_at.has_value();
}

ProductLayer ProductLayers::layer(std::size_t i) const {
  const Data::Product& product = data_->products[i];
  const graph::Node& node = data_->node_of(product);
  ProductLayer layer;
  layer.name = node.name;
  layer.op = node.op;
  layer.rule = product.rule;
  if (!product.rule) {
    layer.weight_failure = *why_unknown_operator(node);
    if (!node.domain.empty()) layer.op = node.domain + "::" + node.op;
    return layer;
  }
  layer.operands = product.rule->operands;
  layer.has_ellipsis = node.text_or("equation", "").find('.') != std::string::npos;
  if (!product.rule->reason.empty()) {
    layer.weight_failure = product.rule->reason;
    if (product.weight_at) {
      const auto codes = data_->codes_of(product);
      layer.is_float = !codes.ok() && codes.failure().message == kNoWeightQuantizer;
    }
    return layer;
  }
  if (product.weight_at) {
    data_->take_codes(product, layer);
    if (layer.weight_failure.empty()) data_->take_input(product, layer);
  } else {
    data_->take_computed(product, layer);
  }
  if (product.rule->matches) data_->take_bits(product, layer);
  if (layer.weight_failure.empty()) data_->take_bias(product, layer);
  return layer;
}

}  // namespace crumb::analysis

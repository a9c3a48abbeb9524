#include "models/graph/accumulator/layers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "formats/io/text.h"
#include "models/graph/accumulator/rows.h"
#include "models/graph/accumulator/weight_codes.h"
#include "models/graph/cost/bind_shapes.h"
#include "models/graph/cost/products.h"
#include "models/graph/passes/passes.h"
#include "models/graph/qonnx/constant_values.h"
#include "models/graph/qonnx/infer_datatypes.h"
#include "models/graph/qonnx/lift_quantized.h"
#include "models/graph/qonnx/quantized_constants.h"
#include "models/graph/strided_index.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr double kMostInput = 4503599627370496;  // 2^52
constexpr std::int64_t kMostStep = 1 << 20;      // of strides, of dilations, all axes together
constexpr double kSameScale = 1e-5;              // relative: float32 products of scales

InputRanges as_numbers(const Graph& graph, const GivenRanges& given) {
  InputRanges ranges;
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

/// The taps of a kernel that meet in one result of a ConvTranspose have one phase: a number for each.
std::uint32_t phase_of(const ProductLayer& layer, std::span<const std::int64_t> place) {
  std::int64_t phase = 0;
  for (std::size_t i = 0; i < layer.strides.size(); ++i) {
    phase = phase * layer.strides[i] + place[3 + i] * layer.dilations[i] % layer.strides[i];
  }
  return static_cast<std::uint32_t>(phase);
}

}  // namespace

struct ProductLayers::Data {
  Data(const Graph& graph, const GivenRanges& given)
      : lifted(lift_quantized(without_claims(sorted(graph)))),
        lowered(resolve_shapes(lower_or_fold_quantized(lifted))),
        constants(lowered),
        types(infer_data_types(lowered, constants, TypeRules::kExact, as_numbers(lowered, given))),
        links(lowered),
        weights(lifted, lowered, constants, types) {
    for (std::size_t i = 0; i < lowered.nodes.size(); ++i) {
      if (weight_at(lowered.nodes[i])) products.push_back(i);
    }
  }

  /// Which input is the weight; nothing where this is no such product.
  std::optional<std::size_t> weight_at(const Node& node) const {
    const bool is_matrix = node.is("MatMul") || node.is("Gemm");
    const bool is_convolution =
        node.is("Conv") || node.is("ConvTranspose") || node.is("Conv", kChannelsLastDomain);
    if ((!is_matrix && !is_convolution) || !node.has_input(0) || !node.has_input(1) || !node.has_output(0))
      return {};
    const bool first = constants.is_constant(node.inputs[0]), second = constants.is_constant(node.inputs[1]);
    if (first == second) return {};
    if (second) return 1;
    return is_matrix ? std::optional<std::size_t>(0) : std::nullopt;
  }

  void take_codes(const Node& node, std::size_t at, ProductLayer& layer) const;
  void take_input(const Node& node, std::size_t at, ProductLayer& layer) const;
  bool is_of_tokens(const Node& node, std::size_t at) const;
  void take_bias(const Node& node, ProductLayer& layer) const;
  std::string bias_of(const Node& node, const ProductLayer& layer) const;
  bool lies_on_channels(const Node& node, const std::string& bias, const ProductLayer& layer) const;
  std::string why_unknown(const std::string& value) const;

  const Graph lifted, lowered;
  const ConstantValues constants;
  const std::map<std::string, ValueType> types;
  const Links links;
  const WeightReader weights;
  std::vector<std::size_t> products;
};

namespace {

/// Axes as ProductLayer::weight_shape has them: channels first, and no transB.
std::optional<Ints> canonical_order(const Node& node, std::size_t at, std::size_t rank) {
  Ints order(rank);
  std::iota(order.begin(), order.end(), 0);
  if (node.is("Conv", kChannelsLastDomain)) {
    std::rotate(order.begin() + 1, order.end() - 1, order.end());
    return order;
  }
  if (node.is("Gemm") && node.int_or(at == 1 ? "transB" : "transA", 0) != 0 && rank == 2) return Ints{1, 0};
  return {};
}

template <class T>
std::vector<T> in_order(const std::vector<T>& values, const Ints& shape, const Ints& order) {
  std::vector<T> moved;
  moved.reserve(values.size());
  StridedIndex index = StridedIndex::permuted(shape, order);
  for (std::size_t i = 0; i < values.size(); ++i, index.next()) moved.push_back(values[index.at()]);
  return moved;
}

/// Codes as rows, and the parts of each.
void lay_out(const WeightCodes& weight, const WeightAxes& axes, ProductLayer& layer) {
  const RowOrder order(axes.shape, axes.summed);
  if (weight.codes.empty()) return;
  layer.channels = order.rows();
  layer.length = order.length();
  layer.codes.resize(weight.codes.size());
  const bool phases = std::ranges::any_of(layer.strides, [](std::int64_t stride) { return stride > 1; });
  std::vector<std::uint32_t> group(weight.group.empty() ? 0 : weight.codes.size());
  std::vector<std::uint32_t> phase(phases ? weight.codes.size() : 0);
  order.for_each([&](std::size_t i, std::size_t row, std::size_t term, std::span<const std::int64_t> place) {
    const std::size_t to = row * layer.length + term;
    layer.codes[to] = weight.codes[i];
    if (!group.empty()) group[to] = weight.group[i];
    if (phases) phase[to] = phase_of(layer, place);
  });
  layer.scale.assign(layer.channels, weight.scale.empty() ? 1.0 : weight.scale[0]);
  for (std::size_t c = 0; c < layer.channels && !group.empty(); ++c) {
    const auto row = std::span(group).subspan(c * layer.length, layer.length);
    layer.one_scale = layer.one_scale && std::ranges::all_of(row, [&](auto g) { return g == row[0]; });
    layer.scale[c] = weight.scale[row[0]];
  }
  if (layer.one_scale && !phases) return;
  layer.part.resize(layer.codes.size());
  for (std::size_t c = 0; c < layer.channels; ++c) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> met;
    for (std::size_t i = c * layer.length; i < (c + 1) * layer.length; ++i) {
      const std::pair key(layer.one_scale ? 0 : group[i], phases ? phase[i] : 0);
      layer.part[i] = met.emplace(key, static_cast<std::uint32_t>(met.size())).first->second;
    }
  }
}

}  // namespace

void ProductLayers::Data::take_codes(const Node& node, std::size_t at, ProductLayer& layer) const {
  auto found = weights.find(node.inputs[at]);
  if (!found.ok()) {
    layer.weight_failure = found.failure().message;
    return;
  }
  WeightCodes weight = found.take();
  layer.unit = weight.unit;
  layer.weight_first = at == 0;
  Node plain = node;
  if (const auto order = canonical_order(node, at, weight.shape.size())) {
    weight.codes = in_order(weight.codes, weight.shape, *order);
    if (!weight.group.empty()) weight.group = in_order(weight.group, weight.shape, *order);
    weight.shape = permuted(weight.shape, *order);
    plain.attributes.erase(at == 1 ? "transB" : "transA");
  }
  const auto axes = weight_axes(plain, weight.shape, at);
  if (!axes) return;
  if (node.is("ConvTranspose")) {
    layer.kind = ProductLayer::Kind::kTransposed;
    layer.groups = axes->shape[0];
    const std::size_t spatial = weight.shape.size() - 2;
    layer.strides = node.ints_or("strides", Ints(spatial, 1));
    layer.dilations = node.ints_or("dilations", Ints(spatial, 1));
    const auto is_sound = [&](const Ints& all) {
      const bool fits = all.size() == spatial && std::ranges::all_of(all, [](std::int64_t step) {
                          return step >= 1 && step <= kMostStep;
                        });
      const auto product = fits ? count_elements(all) : Result<std::int64_t>(Failure{});
      return product.ok() && product.value() <= kMostStep;
    };
    if (!is_sound(layer.strides) || !is_sound(layer.dilations)) {
      throw Error(text_of(node) + ": strides or dilations do not fit a weight of the shape " +
                  text_of(weight.shape));
    }
  } else if (!node.is("MatMul") && !node.is("Gemm")) {
    layer.kind = ProductLayer::Kind::kConvolution;
    layer.groups = std::max<std::int64_t>(1, node.int_or("group", 1));
    if (weight.shape[0] % layer.groups != 0)
      throw Error(text_of(node) + ": " + std::to_string(weight.shape[0]) + " channels are no " +
                  std::to_string(layer.groups) + " equal groups");
  }
  layer.weight_shape = axes->shape;
  lay_out(weight, *axes, layer);
}

std::string ProductLayers::Data::why_unknown(const std::string& value) const {
  const std::size_t producer = links.producer(value);
  if (producer != Links::kNone) {
    return "no quantizer of one constant scale stands before it: " + text_of(lowered.nodes[producer]) +
           " makes " + quote_text(value);
  }
  return "the graph's input " + quote_text(value) +
         " has neither a quantizer nor a finn_datatype; give its range with --input-range NAME=lo:hi";
}

/// Whether the scale of the input is computed, and yet one for all terms of a sum: of a quantizer right before, one number
/// for each run along the last axis, which is summed over.
bool ProductLayers::Data::is_of_tokens(const Node& node, std::size_t at) const {
  const bool sums_over_last =
      at == 1 && (node.is("MatMul") || node.is("Gemm")) && node.int_or("transA", 0) == 0;
  const std::size_t producer = links.producer(node.inputs[0]);
  if (!sums_over_last || producer == Links::kNone || !is_quantizer(lowered.nodes[producer])) return false;
  const std::string& scale = lowered.nodes[producer].inputs.at(1);
  const auto shape = lowered.shape_of(scale);
  return !constants.is_constant(scale) && shape && (shape->empty() || shape->back() == Dim(1));
}

void ProductLayers::Data::take_input(const Node& node, std::size_t at, ProductLayer& layer) const {
  const std::string& value = node.inputs[1 - at];
  layer.input = value;
  const auto found = types.find(value);
  if (found == types.end() || !found->second.levels) {
    layer.input_failure = why_unknown(value);
    return;
  }
  const Levels& levels = *found->second.levels;
  const double low = levels.low / levels.unit(), high = levels.high / levels.unit();
  if (!levels.one_scale && !is_of_tokens(node, at)) {
    layer.input_failure =
        "its input " + quote_text(value) + " has several scales, and so no one sum of integers";
  } else if (!(std::fabs(low) <= kMostInput && std::fabs(high) <= kMostInput)) {
    layer.input_failure = "the range of its input " + quote_text(value) + " is more than 52 bits wide";
  } else {
    layer.input_range = {static_cast<std::int64_t>(std::floor(low)),
                         static_cast<std::int64_t>(std::ceil(high))};
    layer.input_unit = levels.unit();
    layer.input_assumed = levels.assumed;
    layer.input_scale = levels.scale;
  }
}

/// The constant that is added to a product, by the node itself or by what alone takes its result; "" where none is.
std::string ProductLayers::Data::bias_of(const Node& node, const ProductLayer& layer) const {
  if (node.has_input(2)) return node.inputs[2];
  const auto consumers = links.consumers(node.outputs[0]);
  if (consumers.size() != 1 || links.is_output(node.outputs[0])) return {};
  const Node& add = lowered.nodes[consumers[0]];
  if (!add.is("Add") || add.inputs.size() != 2) return {};
  const std::string& other = add.inputs[add.inputs[0] == node.outputs[0] ? 1 : 0];
  return constants.is_constant(other) && lies_on_channels(node, other, layer) ? other : std::string();
}

/// Whether a constant beside a result has one number for each channel, or one for all.
bool ProductLayers::Data::lies_on_channels(const Node& node, const std::string& bias,
                                           const ProductLayer& layer) const {
  const auto constant = constants.find(bias);
  if (!constant) return false;
  if (constant->values.size() == 1) return true;
  if (constant->values.size() != layer.channels) return false;
  std::size_t from_last = layer.weight_first ? 1 : 0;
  if (layer.kind != ProductLayer::Kind::kMatrix && node.domain != kChannelsLastDomain)
    from_last = layer.weight_shape.size() - (layer.kind == ProductLayer::Kind::kTransposed ? 3 : 2);
  return constant->shape.size() > from_last &&
         constant->shape[constant->shape.size() - 1 - from_last] == static_cast<std::int64_t>(layer.channels);
}

void ProductLayers::Data::take_bias(const Node& node, ProductLayer& layer) const {
  const std::string value = bias_of(node, layer);
  if (value.empty()) return;
  const auto constant = constants.find(value);
  if (constant && std::ranges::all_of(constant->values, [](double b) { return b == 0; })) return;
  layer.bias = BiasPlace::kAfter;
  if (layer.kind == ProductLayer::Kind::kMatrix && !lies_on_channels(node, value, layer)) return;
  const bool is_plain = node.float_or("alpha", 1) == 1 && node.float_or("beta", 1) == 1;
  if (!layer.input_scale || !layer.one_scale || !is_plain) return;
  const auto found = weights.find(value);
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
    if (std::trunc(code) != code || std::fabs(code) > kMostInput) return;
    codes.push_back(static_cast<std::int64_t>(code));
  }
  layer.bias = BiasPlace::kInside;
  layer.bias_codes = std::move(codes);
  if (!node.has_input(2)) layer.bias_sum = lowered.nodes[links.consumers(node.outputs[0])[0]].outputs[0];
}

std::vector<std::uint32_t> ProductLayer::registers(std::size_t channel, std::size_t tile) const {
  std::vector<std::uint32_t> numbers(length);
  std::map<std::pair<std::uint32_t, std::size_t>, std::uint32_t> met;
  for (std::size_t i = 0; i < length; ++i) {
    const std::pair key(part.empty() ? 0 : part[channel * length + i], tile == 0 ? 0 : i / tile);
    numbers[i] = met.emplace(key, static_cast<std::uint32_t>(met.size())).first->second;
  }
  return numbers;
}

std::vector<std::int64_t> ProductLayer::starts(std::size_t channel, std::size_t tile, bool with_bias) const {
  const std::vector<std::uint32_t> number = registers(channel, tile);
  std::vector<std::int64_t> all(number.empty() ? 1 : std::ranges::max(number) + 1, 0);
  if (!with_bias || bias_codes.empty()) return all;
  if (number.empty()) all[0] = bias_codes[channel];
  std::vector<bool> met;
  for (std::size_t i = 0; i < number.size(); ++i) {
    const std::uint32_t of = part.empty() ? 0 : part[channel * length + i];
    if (of >= met.size()) met.resize(of + 1, false);
    if (!met[of]) all[number[i]] = bias_codes[channel];
    met[of] = true;
  }
  return all;
}

std::optional<std::vector<ChannelSums>> ProductLayer::worst_sums(IntegerRange range, std::size_t tile,
                                                                 bool with_bias) const {
  std::vector<ChannelSums> all(channels);
  for (std::size_t c = 0; c < channels && part.empty(); ++c) {
    const auto row = std::span(codes).subspan(c * length, length);
    auto sums = worst_sums_of_tiles(row, tile, range, with_bias && !bias_codes.empty() ? bias_codes[c] : 0);
    if (!sums) return {};
    all[c] = std::move(*sums);
  }
  for (std::size_t c = 0; c < channels && !part.empty(); ++c) {
    const auto number = registers(c, tile);
    const auto start = starts(c, tile, with_bias);
    std::vector<std::vector<std::int64_t>> rows(start.size());
    for (std::size_t i = 0; i < length; ++i) rows[number[i]].push_back(codes[c * length + i]);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const auto sums = crumb::worst_sums(rows[r], range, start[r]);
      if (!sums) return {};
      all[c].push_back(*sums);
    }
  }
  return all;
}

ProductLayers::ProductLayers(const Graph& graph, const GivenRanges& given)
    : data_(std::make_unique<const Data>(graph, given)) {}

ProductLayers::~ProductLayers() = default;

std::size_t ProductLayers::size() const { return data_->products.size(); }

const Node& ProductLayers::node(std::size_t i) const { return data_->lowered.nodes[data_->products[i]]; }

ProductLayer ProductLayers::layer(std::size_t i) const {
  const Node& product = node(i);
  const std::size_t at = *data_->weight_at(product);
  ProductLayer layer{.name = product.name, .op = product.op};
  data_->take_codes(product, at, layer);
  data_->take_input(product, at, layer);
  if (layer.weight_failure.empty()) data_->take_bias(product, layer);
  return layer;
}

}  // namespace crumb::graph

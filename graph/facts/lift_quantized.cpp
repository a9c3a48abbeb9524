#include "graph/facts/lift_quantized.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "graph/edit.h"
#include "graph/facts/constant_values.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/operator_traits.h"
#include "graph/qonnx/pack_constant.h"
#include "graph/qonnx/quant_arithmetic.h"
#include "graph/strided_index.h"
#include "graph/weighted_product.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr int kMostFollowers = 2;  // a Reshape and a Transpose

QuantOperand as_operand(const ConstantValue& value) {
  return {.values = value.values, .shape = value.shape, .wide = value.wide};
}

/// Returns one float32 for each element of `shape`, or one for all; nothing where a number is not a float32.
std::optional<std::vector<float>> broadcast(const ConstantValue& value, const Ints& shape,
                                            std::size_t elements) {
  for (const double number : value.values) {
    if (static_cast<double>(static_cast<float>(number)) != number) return {};
  }
  if (value.values.size() == 1) return std::vector<float>{static_cast<float>(value.values[0])};
  auto index = StridedIndex::broadcast(shape, value.shape);
  if (!index) return {};
  std::vector<float> numbers(elements);
  for (float& number : numbers) {
    number = static_cast<float>(value.values[index->at()]);
    index->next();
  }
  return numbers;
}

std::optional<CodeFormat> integer_format(double bits, bool is_signed, bool narrow,
                                         const std::vector<float>& zero) {
  if (bits < 1 || bits > 8 || std::trunc(bits) != bits) return {};
  if (bits == 1 && is_signed) return CodeFormat{.number = find_number_format("binary")};
  const std::string digits = std::to_string(static_cast<int>(bits));
  const bool halves = std::ranges::all_of(zero, [](float z) { return z == -0.5F; });
  if (halves && is_signed && !narrow) {
    if (const NumberFormat* half = find_number_format("int" + digits + "h"))
      return CodeFormat{.number = half};
  }
  const NumberFormat* number = find_number_format((is_signed ? "int" : "uint") + digits);
  if (!number || (narrow && !number->has_range())) return {};
  return CodeFormat{.number = number, .range = narrow ? Range::kNarrow : Range::kFull};
}

std::optional<CodeFormat> minifloat_format(const FloatFormat& wanted) {
  for (const NumberFormat& number : number_formats()) {
    if (number.grid == Grid::kMinifloat && !number.scale_only && number.is_signed &&
        number.exponent_bits == wanted.exponent_bits && number.mantissa_bits == wanted.mantissa_bits &&
        number.bias == wanted.exponent_bias && number.largest_value(Range::kFull) == wanted.largest())
      return CodeFormat{.number = &number};
  }
  return {};
}

struct Found {
  CodeFormat format;
  QuantizedElements elements;
};

class Lifter {
 public:
  explicit Lifter(Graph graph)
      : graph_(std::move(graph)), known_(infer_shapes(graph_)), constants_(known_), links_(known_) {}

  Graph run() && {
    for (const Node& node : known_.nodes) {
      if (is_quantizer(node) && node.has_output(0)) lift(node);
    }
    std::erase_if(graph_.nodes, [&](const Node& node) {
      return std::ranges::any_of(node.outputs, [&](const auto& value) { return gone_.contains(value); });
    });
    for (auto& [name, constant] : lifted_) {
      set_codes(graph_, name, std::move(constant));
    }
    if (!lifted_.empty()) drop_unused(graph_);
    return std::move(graph_);
  }

 private:
  void lift(const Node& node) {
    if (!constants_.is_constant(node.outputs[0])) return;
    auto found = node.op == "FloatQuant"     ? float_quant(node)
                 : node.op == "BipolarQuant" ? bipolar_quant(node)
                                             : quant(node);
    if (!found) return;
    std::vector<std::string> chain{node.outputs[0]};
    follow(chain, found->elements);
    const std::string& name = chain.back();
    if (links_.is_output(name)) return;
    const MatrixAxes axes = axes_of(name, found->elements.shape.size());
    auto constant = pack_constant(found->elements, found->format, axes);
    if (!constant && axes != MatrixAxes{}) constant = pack_constant(found->elements, found->format, {});
    if (!constant) return;
    lifted_.emplace(name, std::move(*constant));
    gone_.insert(chain.begin(), chain.end());
  }

  std::optional<ConstantValue> input(const Node& node, std::size_t i) const {
    return node.has_input(i) ? constants_.find(node.inputs[i]) : std::nullopt;
  }
  std::optional<double> number(const Node& node, std::size_t i) const {
    return node.has_input(i) ? constants_.number(node.inputs[i]) : std::nullopt;
  }

  /// Returns values and integers with each element's scale and zero point.
  static std::optional<Found> with(Result<Quantized> made, const ConstantValue& data,
                                   const ConstantValue& scale, const ConstantValue* zero) {
    if (!made.ok()) return {};
    Quantized& quantized = made.value();
    auto scales = broadcast(scale, data.shape, quantized.values.size());
    auto zeros = zero ? broadcast(*zero, data.shape, quantized.values.size()) : std::vector<float>{0.0F};
    if (!scales || !zeros) return {};
    return Found{.elements = {.shape = data.shape,
                              .values = std::move(quantized.values),
                              .integers = {quantized.integers.begin(), quantized.integers.end()},
                              .scale = std::move(*scales),
                              .zero = std::move(*zeros)}};
  }

  static std::optional<Found> with_format(std::optional<Found> found,
                                          const std::optional<CodeFormat>& format) {
    if (!found || !format) return {};
    found->format = *format;
    return found;
  }

  static std::optional<QuantRounding> rounding(const Node& node) {
    return find_quant_rounding(node.text_or("rounding_mode", "ROUND"));
  }

  std::optional<Found> quant(const Node& node) const {
    const auto data = input(node, 0), scale = input(node, 1), zero = input(node, 2);
    const auto bits = number(node, 3);
    const auto mode = rounding(node);
    if (!data || !scale || !zero || !bits || !mode) return {};
    const IntegerFormat format{
        .bits = *bits, .is_signed = node.int_or("signed", 1) != 0, .narrow = node.int_or("narrow", 0) != 0};
    auto found = with(quantize(as_operand(*data), as_operand(*scale), as_operand(*zero), format, *mode),
                      *data, *scale, &*zero);
    if (!found) return {};
    std::vector<float>& zeros = found->elements.zero;
    const auto codes = integer_format(*bits, format.is_signed, format.narrow, zeros);
    if (codes && codes->number->grid == Grid::kHalfInteger) zeros = {0.0F};  // the grid implies it
    return with_format(std::move(found), codes);
  }

  std::optional<Found> bipolar_quant(const Node& node) const {
    const auto data = input(node, 0), scale = input(node, 1);
    if (!data || !scale) return {};
    return with_format(with(quantize_bipolar(as_operand(*data), as_operand(*scale)), *data, *scale, nullptr),
                       CodeFormat{.number = find_number_format("binary")});
  }

  std::optional<Found> float_quant(const Node& node) const {
    const auto data = input(node, 0), scale = input(node, 1);
    const auto exponent = number(node, 2), mantissa = number(node, 3), bias = number(node, 4),
               most = number(node, 5);
    const auto mode = rounding(node);
    if (!data || !scale || !exponent || !mantissa || !bias || !most || !mode) return {};
    const FloatFormat format{.exponent_bits = *exponent,
                             .mantissa_bits = *mantissa,
                             .exponent_bias = *bias,
                             .max_value = *most,
                             .has_inf = node.int_or("has_inf", 0) != 0,
                             .has_nan = node.int_or("has_nan", 0) != 0,
                             .saturates = node.int_or("saturation", 1) != 0};
    return with_format(
        with(quantize_float(as_operand(*data), as_operand(*scale), format, *mode), *data, *scale, nullptr),
        minifloat_format(format));
  }

  /// Applies nodes that are the value's only consumer, and adds their outputs to the chain.
  void follow(std::vector<std::string>& chain, QuantizedElements& elements) const {
    for (int i = 0; i < kMostFollowers; ++i) {
      const auto consumers = links_.consumers(chain.back());
      if (consumers.size() != 1 || links_.is_output(chain.back())) return;
      const Node& node = known_.nodes[consumers[0]];
      if (!node.has_output(0) || node.inputs[0] != chain.back()) return;
      if (!(node.is("Reshape") ? reshape(node, elements) : node.is("Transpose") && transpose(node, elements)))
        return;
      chain.push_back(node.outputs[0]);
    }
  }

  bool reshape(const Node& node, QuantizedElements& elements) const {
    const Value* made = known_.find(node.outputs[0]);
    if (!made || !made->is_static() || !constants_.is_constant(node.outputs[0])) return false;
    Ints shape;
    for (const Dim& dim : *made->shape) shape.push_back(dim.size);
    const auto count = count_elements(shape);
    if (!count.ok() || count.value() != static_cast<std::int64_t>(elements.values.size())) return false;
    elements.shape = std::move(shape);
    return true;
  }

  static bool transpose(const Node& node, QuantizedElements& elements) {
    Ints reversed(elements.shape.size());
    for (std::size_t i = 0; i < reversed.size(); ++i)
      reversed[i] = static_cast<std::int64_t>(reversed.size() - 1 - i);
    const Ints perm = node.ints_or("perm", reversed);
    if (!is_permutation(perm, elements.shape.size())) return false;
    for (auto* numbers : {&elements.values, &elements.integers, &elements.scale, &elements.zero}) {
      if (numbers->size() == elements.values.size()) *numbers = permuted(*numbers, elements.shape, perm);
    }
    elements.shape = permuted_shape(elements.shape, perm);
    return true;
  }

  /// Returns the roles of the value's axes for its consumer; if there is none, axis 0 is the output axis.
  MatrixAxes axes_of(const std::string& name, std::size_t rank) const {
    const auto consumers = links_.consumers(name);
    if (consumers.empty() || rank < 2) return {};
    const Node& node = known_.nodes[consumers[0]];
    constexpr std::size_t kOfRecurrent = 3;  // axes of W and R: directions, rows of gates, terms
    if (is_any(node, trait::kRecurrent) && rank == kOfRecurrent) return {1};
    const bool is_second = node.inputs.size() > 1 && node.inputs[1] == name;
    const auto product = weighted_product(node, rank, is_second ? 1 : 0);
    if (!product) return {};
    return {product->output_axis, product->is_convolution() ? 0 : rank - 2};
  }

  Graph graph_;
  const Graph known_;  ///< the same graph with shapes
  const ConstantValues constants_;
  const Links links_;
  std::map<std::string, QuantizedConstant> lifted_;
  std::set<std::string> gone_;  ///< values whose nodes are removed
};

}  // namespace

Graph lift_quantized(Graph graph) { return Lifter(std::move(graph)).run(); }

}  // namespace crumb::graph

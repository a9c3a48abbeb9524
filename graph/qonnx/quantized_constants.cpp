#include "graph/qonnx/quantized_constants.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "base/files/text.h"
#include "graph/edit.h"
#include "graph/qonnx/quantizer_nodes.h"
#include "graph/strided_index.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr std::uint64_t kLeastDecoded = 1 << 18;  // elements that are decoded on request only, at least

bool is_identity(const Ints& axes) { return std::ranges::is_sorted(axes); }

/// How a constant is laid out for its quantizer: the shape of the data, which the quantizer sees permuted by
/// `axes`, and the shape of a parameter with one number per block.
struct Layout {
  Ints shape, parameter, axes;
  bool by_element = false;  ///< one parameter for every element
};

class Lowering {
 public:
  Lowering(Graph& graph, std::string name, const QuantizedConstant& constant)
      : graph_(graph),
        name_(std::move(name)),
        constant_(constant),
        tensor_(*constant.tensor),
        number_(*tensor_.encoding.number),
        decoder_(tensor_.view()) {}

  void run() {
    const Layout layout = layout_of();
    const Node quantizer = quantizer_for(layout);
    append(quantizer, decoded(layout), layout);
  }

 private:
  Ints tensor_shape() const { return {tensor_.shape.begin(), tensor_.shape.end()}; }
  std::uint64_t blocks() const { return tensor_.layout.blocks(); }

  /// Returns the quantizer's data: the elements in the constant's order, or in the tensor's if a Transpose
  /// follows.
  Tensor decoded(const Layout& layout) const {
    const Ints sizes = permuted_shape(layout.shape, layout.axes);
    QuantizedConstant ordered = constant_;
    if (is_identity(layout.axes)) std::ranges::sort(ordered.axes);
    if (tensor_.layout.matrix.size() < kLeastDecoded) return ordered.value().reshaped(sizes);
    return Tensor::in_parts(ElementType::kFloat, sizes,
                            [ordered](std::uint64_t first, std::span<std::byte> to) {
                              read_values(ordered, first / sizeof(float),
                                          {reinterpret_cast<float*>(to.data()), to.size() / sizeof(float)});
                            });
  }

  /// Whether blocks are runs of equal length within rows, several per row.
  bool has_groups() const {
    return tensor_.layout.blocks_per_row > 1 && tensor_.encoding.block_rows == 1 &&
           tensor_.layout.matrix.cols % tensor_.encoding.block_cols == 0;
  }

  Layout layout_of() const {
    const Ints shape = tensor_shape();
    if (blocks() == 1) return {.shape = shape, .parameter = {}, .axes = constant_.axes};
    const std::size_t stack = tensor_.encoding.stack_axes;
    const bool by_row = tensor_.layout.blocks_per_row == 1 && tensor_.encoding.block_rows == 1;
    const bool by_matrix = tensor_.layout.blocks_each() == 1;
    if (by_row || by_matrix) {
      Ints parameter(shape.size(), 1);
      std::copy_n(shape.begin(), by_row ? stack + 1 : stack, parameter.begin());
      return {.shape = shape, .parameter = parameter, .axes = constant_.axes};
    }
    if (!has_groups())
      return {.shape = shape, .parameter = shape, .axes = constant_.axes, .by_element = true};
    // [matrices..., rows, groups, length], and for a transposed matrix [matrices..., groups, length, rows].
    Ints split(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(stack) + 1);
    split.push_back(static_cast<std::int64_t>(tensor_.layout.blocks_per_row));
    Ints parameter = split, axes(stack + 3);
    split.push_back(static_cast<std::int64_t>(tensor_.encoding.block_cols));
    parameter.push_back(1);
    std::iota(axes.begin(), axes.end(), 0);
    if (is_transposed()) std::rotate(axes.end() - 3, axes.end() - 2, axes.end());
    return {.shape = split, .parameter = parameter, .axes = axes};
  }

  /// Whether matrices are stored as [columns, rows].
  bool is_transposed() const {
    const std::size_t stack = tensor_.encoding.stack_axes;
    return constant_.axes.size() == stack + 2 && !is_identity(constant_.axes) &&
           output_axis_of(constant_.axes, stack) == stack + 1;
  }

  /// Returns a parameter: [] if it is one number, else permuted as the data are.
  Tensor parameter(const Layout& layout, const std::function<float(std::uint64_t)>& of_block) const {
    std::vector<float> values(blocks());
    for (std::uint64_t i = 0; i < values.size(); ++i) values[i] = of_block(i);
    const bool one = std::ranges::all_of(values, [&](float value) { return value == values.front(); });
    if (one && !values.empty()) return Tensor::scalar(values.front());
    if (layout.by_element) values = spread(values);
    return Tensor::floats(permuted_shape(layout.parameter, layout.axes),
                          permuted(values, layout.parameter, layout.axes));
  }

  std::vector<float> spread(const std::vector<float>& of_blocks) const {
    const auto& matrix = tensor_.layout.matrix;
    std::vector<float> values(matrix.size());
    for (std::uint64_t row = 0; row < matrix.rows; ++row) {
      for (std::uint64_t column = 0; column < matrix.cols; ++column) {
        values[row * matrix.cols + column] =
            of_blocks[tensor_.layout.first_block(row) + column / tensor_.encoding.block_cols];
      }
    }
    return values;
  }

  float scale_of(std::uint64_t block) const {
    const float scale = decoder_.scale(block);
    if (scale != 0 || number_.grid == Grid::kBinary) return scale;
    return number_.grid == Grid::kHalfInteger ? std::numeric_limits<float>::denorm_min() : 1.0F;
  }

  float zero_of(std::uint64_t block) const {
    return number_.grid == Grid::kHalfInteger ? -0.5F : decoder_.zero_point(block);
  }

  Node quantizer_for(const Layout& layout) {
    const auto add = [&](const char* what, const Tensor& tensor) {
      return add_constant(graph_, name_ + what, tensor);
    };
    const std::string scale =
        add("_scale", parameter(layout, [&](std::uint64_t block) { return scale_of(block); }));
    if (number_.grid == Grid::kBinary) return bipolar_quant_node("", scale);
    if (number_.grid == Grid::kMinifloat) {
      return float_quant_node(
          {"", scale, add("_exponent_bits", Tensor::scalar(static_cast<float>(number_.exponent_bits))),
           add("_mantissa_bits", Tensor::scalar(static_cast<float>(number_.mantissa_bits))),
           add("_exponent_bias", Tensor::scalar(static_cast<float>(number_.bias))),
           add("_max_val", Tensor::scalar(number_.largest_value(tensor_.encoding.range)))});
    }
    const std::string zero =
        add("_zeropt", parameter(layout, [&](std::uint64_t block) { return zero_of(block); }));
    const std::string bits = add("_bits", Tensor::scalar(static_cast<float>(number_.bits)));
    const bool narrow = number_.grid == Grid::kInteger && is_narrow();
    return quant_node({"", scale, zero, bits}, number_.is_signed, narrow);
  }

  bool is_narrow() const {
    return number_.least_code(tensor_.encoding.range) != number_.least_code(Range::kFull) ||
           number_.greatest_code(tensor_.encoding.range) != number_.greatest_code(Range::kFull);
  }

  /// Appends the initializer, the quantizer, and the nodes that give the result the constant's shape and
  /// name.
  void append(Node node, const Tensor& data, const Layout& layout) {
    node.inputs[0] = add_constant(graph_, name_ + "_values", data);
    node.name = graph_.unused_node_name(name_ + "_quant");
    node.version = graph_.opsets.emplace(kQonnxDomain, 1).first->second;
    const Ints wanted = constant_.shape();
    Value known = value_of(data);
    const bool reshapes = data.shape() != wanted;
    const bool transposes = reshapes && is_identity(layout.axes) && !is_identity(constant_.axes);
    std::string made = reshapes ? add_value(graph_, name_ + "_groups", known) : name_;
    node.outputs = {made};
    graph_.nodes.push_back(std::move(node));
    if (!reshapes) return;
    Value& of_constant = graph_.values[name_];
    of_constant.type = ElementType::kFloat;
    of_constant.shape = Shape(wanted.begin(), wanted.end());
    const Ints target = transposes ? tensor_shape() : wanted;
    const std::string next =
        transposes ? add_value(graph_, name_ + "_rows",
                               {.type = ElementType::kFloat, .shape = Shape(target.begin(), target.end())})
                   : name_;
    const std::string shape = add_constant(graph_, name_ + "_shape",
                                           Tensor::ints({static_cast<std::int64_t>(target.size())}, target));
    graph_.nodes.push_back({.name = graph_.unused_node_name(name_ + "_reshape"),
                            .op = "Reshape",
                            .version = graph_.opset(),
                            .inputs = {made, shape},
                            .outputs = {next}});
    if (!transposes) return;
    graph_.nodes.push_back({.name = graph_.unused_node_name(name_ + "_transpose"),
                            .op = "Transpose",
                            .version = graph_.opset(),
                            .inputs = {next},
                            .outputs = {name_},
                            .attributes = {{"perm", constant_.axes}}});
  }

  Graph& graph_;
  std::string name_;
  const QuantizedConstant& constant_;
  const QuantizedTensor& tensor_;
  const NumberFormat& number_;
  RowDecoder decoder_;
};

void fold(Graph& graph, const std::string& name, const QuantizedConstant& constant) {
  Tensor value = constant.value();
  graph.values[name] = value_of(value);
  graph.initializers.emplace(name, std::move(value));
}

}  // namespace

std::optional<std::string> no_quantizer_for(const QuantizedConstant& constant) {
  const Encoding& encoding = constant.tensor->encoding;
  const std::string format(encoding.number->name);
  if (encoding.number->grid == Grid::kCodebook) return format + " is a codebook";
  if (encoding.tensor_scale) return "its blocks have scales of their own beside one of the tensor (nvfp4)";
  if (encoding.scale == ScaleFormat::kE8M0 && constant.tensor->layout.blocks_per_row > 1) {
    return "its blocks have exponents for scales (MX)";
  }
  if (constant.tensor->layout.matrix.size() == 0) return "it has no elements";
  return {};
}

std::string constants_without_quantizer(const Graph& graph) {
  std::string refused;
  for (const auto& [name, constant] : graph.quantized) {
    if (const auto why = no_quantizer_for(constant)) {
      refused +=
          (refused.empty() ? "" : "; ") + quote_text(name) + " (" + constant.tensor->spec + "): " + *why;
    }
  }
  return refused.empty() ? "" : "QONNX has no quantizer for: " + refused;
}

Graph lower_quantized(Graph graph) {
  if (const std::string refused = constants_without_quantizer(graph); !refused.empty()) throw Error(refused);
  return lower_or_fold_quantized(std::move(graph));
}

Graph lower_or_fold_quantized(Graph graph) {
  const auto constants = std::exchange(graph.quantized, {});
  for (const auto& [name, constant] : constants) {
    if (no_quantizer_for(constant)) {
      fold(graph, name, constant);
    } else {
      Lowering(graph, name, constant).run();
    }
  }
  return sorted(std::move(graph));
}

Graph fold_quantized(Graph graph) {
  for (const auto& [name, constant] : std::exchange(graph.quantized, {})) fold(graph, name, constant);
  return graph;
}

}  // namespace crumb::graph

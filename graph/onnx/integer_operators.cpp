#include "graph/onnx/integer_operators.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "graph/onnx/block_operators.h"
#include "graph/onnx/node_writer.h"
#include "graph/onnx/replace_nodes.h"

namespace crumb::graph {
namespace {
namespace integer_bodies {

using Ints = std::vector<std::int64_t>;
using Attributes = NodeWriter::Attributes;

/// Returns the node's attributes of these names.
Attributes kept(const Node& node, std::initializer_list<const char*> names) {
  Attributes attributes;
  for (const char* name : names)
    if (const auto found = node.attributes.find(name); found != node.attributes.end())
      attributes.insert(*found);
  return attributes;
}

bool has_inputs(const Node& node, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (!node.has_input(i)) return false;
  return true;
}

/// Returns the product of two scales, one number or one for each channel; "" where it cannot be known.
std::string product_of_scales(NodeWriter& writer, std::size_t a, std::size_t b) {
  const Tensor *left = writer.constant_input(a), *right = writer.constant_input(b);
  if (!left || !right || (left->size() != 1 && right->size() != 1)) return "";
  const std::vector<float> x = left->to_floats(), y = right->to_floats();
  std::vector<float> products(std::max(x.size(), y.size()));
  for (std::size_t i = 0; i < products.size(); ++i)
    products[i] = x[x.size() == 1 ? 0 : i] * y[y.size() == 1 ? 0 : i];
  const Ints shape = products.size() == 1 ? Ints{} : Ints{static_cast<std::int64_t>(products.size())};
  return writer.constant("bias_scale", Tensor::floats(shape, products));
}

/// Calls `make` with the value, whose channels it moves to axis 1 and back where the node has them last.
template <class Make>
bool with_channels_first(NodeWriter& writer, const std::string& value, std::optional<std::size_t> rank,
                         const Make& make) {
  if (writer.node().int_or("channels_last", 0) == 0) return make(value), true;
  if (!rank || *rank < 3) return false;
  const auto last = static_cast<std::int64_t>(*rank) - 1;
  Ints first{0, last}, back{0};
  for (std::int64_t i = 1; i < last; ++i) first.push_back(i);
  for (std::int64_t i = 2; i <= last; ++i) back.push_back(i);
  back.push_back(1);
  const std::string made = make(writer.add("Transpose", {value}, {{"perm", first}}));
  writer.add("Transpose", {made}, {{"perm", back}});
  return true;
}

bool convolution(NodeWriter& writer) {
  const Node& node = writer.node();
  if (!has_inputs(node, 8)) return false;
  std::string bias;
  if (node.has_input(8)) {
    const std::string scale = product_of_scales(writer, 1, 4);
    if (scale.empty()) return false;
    bias = writer.dequantized(node.inputs[8], scale, "", 0);
  }
  const std::string x = writer.dequantized(0), w = writer.dequantized(3, 0);
  const Tensor* weight = writer.constant_input(3);
  return with_channels_first(
      writer, x, weight ? std::optional<std::size_t>(weight->rank()) : writer.rank_of(node.inputs[0]),
      [&](const std::string& value) {
        const std::string sum =
            writer.add("Conv", {value, w, bias},
                       kept(node, {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}));
        return writer.quantized(sum, 6, 7);
      });
}

bool matrix_product(NodeWriter& writer) {
  if (!has_inputs(writer.node(), 8)) return false;
  const std::string a = writer.dequantized(0, -2), b = writer.dequantized(3, -1);
  writer.quantized(writer.add("MatMul", {a, b}), 6, 7);
  return true;
}

bool gemm(NodeWriter& writer) {
  const Node& node = writer.node();
  if (!has_inputs(node, 6)) return false;
  const float alpha = node.float_or("alpha", 1);
  const bool b_is_transposed = node.int_or("transB", 0) != 0;
  std::string bias;
  if (node.has_input(6)) {
    std::string scale = product_of_scales(writer, 1, 4);
    if (scale.empty()) return false;
    if (alpha != 1) {
      std::vector<float> scales = writer.graph().constant(scale)->to_floats();
      for (float& one : scales) one *= alpha;
      scale = writer.constant("bias_scale", Tensor::floats(writer.graph().constant(scale)->shape(), scales));
    }
    const auto rank = writer.rank_of(node.inputs[6]);
    bias = writer.dequantized(node.inputs[6], scale, "", rank == 2 ? 1 : 0);
  }
  const std::string a = writer.dequantized(0), b = writer.dequantized(3, b_is_transposed ? 0 : 1);
  const std::string sum = writer.add("Gemm", {a, b, bias}, kept(node, {"alpha", "transA", "transB"}));
  if (node.has_input(7)) writer.quantized(sum, 7, 2);
  return true;
}

/// Inputs (a, scale, zero point) twice, then the result's scale and zero point.
template <const char* const& Op>
bool of_two(NodeWriter& writer) {
  for (const std::size_t i : {0, 1, 3, 4, 6})
    if (!writer.node().has_input(i)) return false;
  const std::string a = writer.dequantized(0), b = writer.dequantized(3);
  writer.quantized(writer.add(Op, {a, b}), 6, 0);
  return true;
}

/// Inputs (x, scale, zero point), then the result's scale and zero point.
template <class Make>
bool of_one(NodeWriter& writer, const Make& make) {
  const Node& node = writer.node();
  if (!node.has_input(0) || !node.has_input(1) || !node.has_input(3)) return false;
  writer.quantized(make(writer.dequantized(0)), 3, 0);
  return true;
}

bool sigmoid(NodeWriter& writer) {
  return of_one(writer, [&](const std::string& x) { return writer.add("Sigmoid", {x}); });
}

bool leaky_relu(NodeWriter& writer) {
  return of_one(writer, [&](const std::string& x) {
    return writer.add("LeakyRelu", {x}, {{"alpha", writer.node().float_or("alpha", 0.01F)}});
  });
}

/// Before operator set 13 the axes from `axis` on are one.
bool softmax(NodeWriter& writer) {
  const Node& node = writer.node();
  const std::int64_t axis = node.int_or("axis", -1);
  if (node.int_or("opset", 13) < 13 && axis != -1) {
    const auto rank = writer.rank_of(node.inputs[0]);
    if (!rank || axis + 1 != static_cast<std::int64_t>(*rank)) return false;
  }
  return of_one(writer, [&](const std::string& x) {
    return writer.add("Softmax", {x}, {{"axis", axis}}, 13);
  });
}

bool pool(NodeWriter& writer) {
  const Node& node = writer.node();
  const bool is_global = node.op == "QLinearGlobalAveragePool";
  if (!node.has_input(0) || !node.has_input(1) || !node.has_input(3)) return false;
  return with_channels_first(
      writer, writer.dequantized(0), writer.rank_of(node.inputs[0]), [&](const std::string& x) {
        const std::string made = is_global
                                     ? writer.add("GlobalAveragePool", {x})
                                     : writer.add("AveragePool", {x},
                                                  kept(node, {"auto_pad", "ceil_mode", "count_include_pad",
                                                              "kernel_shape", "pads", "strides"}));
        return writer.quantized(made, 3, 0);
      });
}

/// Inputs: the result's scale and zero point, then (x, scale, zero point) of each.
bool concatenation(NodeWriter& writer) {
  const Node& node = writer.node();
  if (node.inputs.size() < 5 || (node.inputs.size() - 2) % 3 != 0) return false;
  std::vector<std::string> parts;
  for (std::size_t i = 2; i < node.inputs.size(); i += 3) {
    if (!node.has_input(i) || !node.has_input(i + 1)) return false;
    parts.push_back(writer.dequantized(i));
  }
  writer.quantized(writer.add("Concat", parts, kept(node, {"axis"})), 0, 2);
  return true;
}

/// Inputs: the condition, (x, scale, zero point) twice, the result's scale and zero point.
bool where(NodeWriter& writer) {
  if (!has_inputs(writer.node(), 9)) return false;
  const std::string x = writer.dequantized(1), y = writer.dequantized(4);
  writer.quantized(writer.add("Where", {writer.input(0), x, y}), 7, 8);
  return true;
}

/// Codes less their zero point, as floats.
std::string centered(NodeWriter& writer, std::size_t codes, std::size_t zero,
                     std::optional<std::int64_t> axis) {
  const Tensor* zeros = writer.constant_input(zero);
  const bool is_single = !zeros || zeros->size() == 1;
  if (is_single) return writer.dequantized(writer.input(codes), writer.number("one", 1), writer.input(zero));
  const std::vector<float> ones(zeros->size(), 1.0F);
  return writer.dequantized(writer.input(codes),
                            writer.constant("ones", Tensor::floats(zeros->shape(), ones)), writer.input(zero),
                            axis);
}

bool integer_matrix_product(NodeWriter& writer) {
  if (!has_inputs(writer.node(), 2)) return false;
  const Tensor *a_zero = writer.constant_input(2), *b_zero = writer.constant_input(3);
  if ((a_zero && a_zero->rank() > 1) || (b_zero && b_zero->rank() > 1)) return false;
  const std::string a = centered(writer, 0, 2, -2), b = centered(writer, 1, 3, -1);
  writer.add("Cast", {writer.add("MatMul", {a, b})},
             {{"to", static_cast<std::int64_t>(ElementType::kInt32)}});
  return true;
}

bool integer_convolution(NodeWriter& writer) {
  const Node& node = writer.node();
  if (!has_inputs(node, 2)) return false;
  const std::string x = centered(writer, 0, 2, std::nullopt), w = centered(writer, 1, 3, 0);
  const std::string sum = writer.add(
      "Conv", {x, w}, kept(node, {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}));
  writer.add("Cast", {sum}, {{"to", static_cast<std::int64_t>(ElementType::kInt32)}});
  return true;
}

/// Inputs a, b, their scales, their zero points, a bias of floats.
bool matrix_product_to_float(NodeWriter& writer) {
  if (!has_inputs(writer.node(), 4)) return false;
  const std::string a = writer.dequantized(writer.input(0), writer.input(2), writer.input(4), -2),
                    b = writer.dequantized(writer.input(1), writer.input(3), writer.input(5), -1);
  const std::string sum = writer.add("MatMul", {a, b});
  if (writer.node().has_input(6)) writer.add("Add", {sum, writer.input(6)});
  return true;
}

/// Inputs: floats, then b, its scale and zero point, a bias of floats.
bool dynamic_matrix_product(NodeWriter& writer) {
  if (!has_inputs(writer.node(), 3)) return false;
  const std::vector<std::string> codes = writer.add_of_several("DynamicQuantizeLinear", {writer.input(0)}, 3);
  const std::string a = writer.dequantized(codes[0], codes[1], codes[2]), b = writer.dequantized(1, -1);
  const std::string sum = writer.add("MatMul", {a, b});
  if (writer.node().has_input(4)) writer.add("Add", {sum, writer.input(4)});
  return true;
}

using Write = bool (*)(NodeWriter&);

constexpr const char* kAdd = "Add";
constexpr const char* kMul = "Mul";

struct Row {
  std::string_view domain, op;
  Write write;
};

constexpr std::array kRows = {
    Row{"", "ConvInteger", integer_convolution},
    Row{"", "MatMulInteger", integer_matrix_product},
    Row{"", "QLinearConv", convolution},
    Row{"", "QLinearMatMul", matrix_product},
    Row{kOnnxruntimeDomain, "DynamicQuantizeMatMul", dynamic_matrix_product},
    Row{kOnnxruntimeDomain, "MatMulIntegerToFloat", matrix_product_to_float},
    Row{kOnnxruntimeDomain, "QGemm", gemm},
    Row{kOnnxruntimeDomain, "QLinearAdd", of_two<kAdd>},
    Row{kOnnxruntimeDomain, "QLinearAveragePool", pool},
    Row{kOnnxruntimeDomain, "QLinearConcat", concatenation},
    Row{kOnnxruntimeDomain, "QLinearConv", convolution},
    Row{kOnnxruntimeDomain, "QLinearGlobalAveragePool", pool},
    Row{kOnnxruntimeDomain, "QLinearLeakyRelu", leaky_relu},
    Row{kOnnxruntimeDomain, "QLinearMul", of_two<kMul>},
    Row{kOnnxruntimeDomain, "QLinearSigmoid", sigmoid},
    Row{kOnnxruntimeDomain, "QLinearSoftmax", softmax},
    Row{kOnnxruntimeDomain, "QLinearWhere", where},
};

const Row* row_of(const Node& node) {
  const auto row = std::ranges::find_if(kRows, [&](const Row& one) { return node.is(one.op, one.domain); });
  return row == kRows.end() || node.outputs.size() != 1 ? nullptr : &*row;
}

}  // namespace integer_bodies
}  // namespace

bool has_float_form(const Node& node) { return integer_bodies::row_of(node) != nullptr; }

Graph dequantize_operators(Graph graph, const std::function<bool(const Node&)>& is_wanted) {
  return replace_nodes(
      std::move(graph), [&](const Node& node) { return has_float_form(node) && is_wanted(node); },
      [](NodeWriter& writer) { return integer_bodies::row_of(writer.node())->write(writer); });
}

}  // namespace crumb::graph

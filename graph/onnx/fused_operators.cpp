#include "graph/onnx/fused_operators.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>
#include <utility>

#include "graph/onnx/attention_operators.h"
#include "graph/onnx/block_operators.h"
#include "graph/onnx/embedding_operators.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/integer_operators.h"
#include "graph/onnx/recurrent_operators.h"
#include "graph/onnx/replace_nodes.h"

namespace crumb::graph {
namespace {
namespace fused_bodies {

using Ints = std::vector<std::int64_t>;
using Attributes = NodeWriter::Attributes;

constexpr std::int64_t kLayerNormSet = 17, kRmsNormSet = 23, kQuantizerSet = 13;
constexpr int kMostRounds = 64;  // each shows the ranks that the next needs

/// Whether numbers may stand beside the value: they are float32.
bool is_float32(const NodeWriter& writer, const std::string& value) {
  const Value* known = writer.graph().find(value);
  return !known || known->type == ElementType::kFloat || known->type == ElementType::kUnknown;
}

/// Adds the activation of the node's attributes. Returns false for one that is not known.
bool activate(NodeWriter& writer, const std::string& value, const std::vector<float>& numbers) {
  const std::string op = writer.node().text_or("activation", "");
  const auto number = [&](std::size_t i, float usual) { return i < numbers.size() ? numbers[i] : usual; };
  if (op.empty()) return true;
  if (op == "Relu" || op == "Tanh" || op == "Sigmoid") return writer.add(op, {value}), true;
  if (op == "LeakyRelu") return writer.add(op, {value}, {{"alpha", number(0, 0.01F)}}), true;
  if (op == "HardSigmoid")
    return writer.add(op, {value}, {{"alpha", number(0, 0.2F)}, {"beta", number(1, 0.5F)}}), true;
  if (op != "Clip" || numbers.size() != 2) return false;
  return writer.add(op, {value, writer.number("min", numbers[0]), writer.number("max", numbers[1])}), true;
}

/// Returns the value with its last two axes exchanged; "" where its rank is not known.
std::string transposed(NodeWriter& writer, const std::string& value) {
  const auto rank = writer.rank_of(value);
  if (!rank || *rank < 2) return "";
  Ints order;
  for (std::size_t i = 0; i < *rank; ++i) order.push_back(static_cast<std::int64_t>(i));
  std::swap(order[*rank - 1], order[*rank - 2]);
  return writer.add("Transpose", {value}, {{"perm", order}});
}

bool fused_mat_mul(NodeWriter& writer) {
  const Node& node = writer.node();
  if (node.int_or("transBatchA", 0) != 0 || node.int_or("transBatchB", 0) != 0) return false;
  if (!node.has_input(0) || !node.has_input(1) || !is_float32(writer, node.inputs[0])) return false;
  std::string a = node.inputs[0], b = node.inputs[1];
  if (node.int_or("transA", 0) != 0) a = transposed(writer, a);
  if (node.int_or("transB", 0) != 0) b = transposed(writer, b);
  if (a.empty() || b.empty()) return false;
  const std::string product = writer.add("MatMul", {a, b});
  if (const float alpha = node.float_or("alpha", 1); alpha != 1)
    writer.add("Mul", {product, writer.number("alpha", alpha)});
  return true;
}

bool fused_gemm(NodeWriter& writer) {
  const Node& node = writer.node();
  Attributes attributes;
  for (const auto& [name, value] : node.attributes)
    if (!name.starts_with("activation")) attributes.emplace(name, value);
  std::vector<float> numbers;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (node.has(name)) numbers.push_back(node.float_or(name, 0));
  return activate(writer, writer.add("Gemm", node.inputs, attributes), numbers);
}

/// A fourth input is added to the sum in front of the activation.
bool fused_conv(NodeWriter& writer) {
  const Node& node = writer.node();
  Attributes attributes;
  for (const auto& [name, value] : node.attributes)
    if (!name.starts_with("activation")) attributes.emplace(name, value);
  std::string sum = writer.add("Conv", {writer.input(0), writer.input(1), writer.input(2)}, attributes);
  if (node.has_input(3)) sum = writer.add("Add", {sum, node.inputs[3]});
  return activate(writer, sum, node.floats_or("activation_params", {}));
}

bool gelu_of(NodeWriter& writer, const std::string& x) {
  if (!is_float32(writer, writer.input(0))) return false;
  const std::string inner = writer.add(
      "Erf", {writer.add("Mul", {x, writer.number("root", static_cast<float>(std::numbers::sqrt2 / 2))})});
  const std::string half = writer.add("Mul", {x, writer.number("half", 0.5F)});
  writer.add("Mul", {half, writer.add("Add", {inner, writer.number("one", 1)})});
  return true;
}

bool gelu(NodeWriter& writer) { return gelu_of(writer, writer.input(0)); }

bool bias_gelu(NodeWriter& writer) {
  if (!writer.node().has_input(1)) return false;
  return gelu_of(writer, writer.add("Add", {writer.input(0), writer.input(1)}));
}

/// By Tanh (Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2).
bool fast_gelu(NodeWriter& writer) {
  if (!is_float32(writer, writer.input(0))) return false;
  const std::string x =
      writer.node().has_input(1) ? writer.add("Add", {writer.input(0), writer.input(1)}) : writer.input(0);
  const std::string cube = writer.add("Mul", {writer.add("Mul", {x, x}), x});
  const std::string sum =
      writer.add("Add", {x, writer.add("Mul", {cube, writer.number("cubic", 0.044715F)})});
  const auto root = static_cast<float>(std::sqrt(2 / std::numbers::pi));
  const std::string inner = writer.add("Tanh", {writer.add("Mul", {sum, writer.number("root", root)})});
  const std::string half = writer.add("Mul", {x, writer.number("half", 0.5F)});
  writer.add("Mul", {half, writer.add("Add", {inner, writer.number("one", 1)})});
  return true;
}

bool quick_gelu(NodeWriter& writer) {
  const std::string x = writer.input(0);
  if (!is_float32(writer, x)) return false;
  const float alpha = writer.node().float_or("alpha", 1.702F);
  writer.add("Mul", {x, writer.add("Sigmoid", {writer.add("Mul", {x, writer.number("alpha", alpha)})})});
  return true;
}

/// Inputs: value, skip, gain, the norm's bias if it has one, and at `bias` that of the sum. Outputs: the
/// norm's, its mean and deviation (which only training takes), the sum.
bool skip_norm(NodeWriter& writer, const std::string& op, std::size_t bias, bool has_norm_bias) {
  const Node& node = writer.node();
  if (node.has_output(1) || node.has_output(2) || !node.has_input(2)) return false;
  std::string sum = writer.add("Add", {writer.input(0), writer.input(1)});
  if (node.has_input(bias)) sum = writer.add("Add", {sum, writer.input(bias)});
  if (node.has_output(3)) sum = writer.rename(sum, node.outputs[3]);
  writer.add(op, {sum, writer.input(2), has_norm_bias ? writer.input(3) : ""},
             {{"axis", std::int64_t{-1}}, {"epsilon", node.float_or("epsilon", 1e-12F)}},
             op == "LayerNormalization" ? kLayerNormSet : kRmsNormSet);
  return true;
}

bool skip_layer_norm(NodeWriter& writer) { return skip_norm(writer, "LayerNormalization", 4, true); }
bool skip_rms_norm(NodeWriter& writer) { return skip_norm(writer, "RMSNormalization", 3, false); }

bool rms_norm(NodeWriter& writer) {
  const Node& node = writer.node();
  if (node.has_output(1) || !node.has_input(1) || node.int_or("stash_type", 1) != 1) return false;
  writer.add("RMSNormalization", {writer.input(0), writer.input(1)},
             {{"axis", node.int_or("axis", -1)}, {"epsilon", node.float_or("epsilon", 1e-5F)}}, kRmsNormSet);
  return true;
}

bool quantizer(NodeWriter& writer) {
  const Node& node = writer.node();
  writer.add(node.op, node.inputs, node.attributes, kQuantizerSet);
  return true;
}

using Write = bool (*)(NodeWriter&);

struct Row {
  std::string_view domain, op;
  Write write;
};

constexpr std::array kRows = {
    Row{"", "SimplifiedLayerNormalization", rms_norm},
    Row{kOnnxruntimeDomain, "Attention", write_attention},
    Row{kOnnxruntimeDomain, "BiasGelu", bias_gelu},
    Row{kOnnxruntimeDomain, "DequantizeLinear", quantizer},
    Row{kOnnxruntimeDomain, "DynamicQuantizeLSTM", write_dynamic_quantized_lstm},
    Row{kOnnxruntimeDomain, "EmbedLayerNormalization", write_embedding_norm},
    Row{kOnnxruntimeDomain, "FastGelu", fast_gelu},
    Row{kOnnxruntimeDomain, "FusedConv", fused_conv},
    Row{kOnnxruntimeDomain, "FusedGemm", fused_gemm},
    Row{kOnnxruntimeDomain, "FusedMatMul", fused_mat_mul},
    Row{kOnnxruntimeDomain, "Gelu", gelu},
    Row{kOnnxruntimeDomain, "GroupQueryAttention", write_group_query_attention},
    Row{kOnnxruntimeDomain, "MultiHeadAttention", write_multi_head_attention},
    Row{kOnnxruntimeDomain, "QAttention", write_quantized_attention},
    Row{kOnnxruntimeDomain, "QEmbedLayerNormalization", write_quantized_embedding_norm},
    Row{kOnnxruntimeDomain, "QuantizeLinear", quantizer},
    Row{kOnnxruntimeDomain, "QuickGelu", quick_gelu},
    Row{kOnnxruntimeDomain, "RotaryEmbedding", write_rotary_embedding},
    Row{kOnnxruntimeDomain, "SimplifiedLayerNormalization", rms_norm},
    Row{kOnnxruntimeDomain, "SkipLayerNormalization", skip_layer_norm},
    Row{kOnnxruntimeDomain, "SkipSimplifiedLayerNormalization", skip_rms_norm},
};

const Row* row_of(const Node& node) {
  const auto row = std::ranges::find_if(kRows, [&](const Row& one) { return node.is(one.op, one.domain); });
  return row == kRows.end() ? nullptr : &*row;
}

Graph replaced(Graph graph) {
  graph = dequantize_operators(std::move(graph),
                               [](const Node& node) { return node.domain == kOnnxruntimeDomain; });
  return replace_nodes(
      std::move(graph), [](const Node& node) { return row_of(node) != nullptr; },
      [](NodeWriter& writer) { return row_of(writer.node())->write(writer); });
}

/// How many nodes are left that more is to be known of.
std::ptrdiff_t left_in(const Graph& graph) {
  return std::ranges::count_if(graph.nodes, [](const Node& node) {
    return row_of(node) != nullptr || (node.domain == kOnnxruntimeDomain && has_float_form(node));
  });
}

}  // namespace fused_bodies
}  // namespace

Graph take_fused_operators(Graph graph) {
  graph = fused_bodies::replaced(std::move(graph));
  std::ptrdiff_t left = fused_bodies::left_in(graph);
  for (int round = 0; round < fused_bodies::kMostRounds && left > 0; ++round) {
    Graph inferred = fused_bodies::replaced(infer_shapes(graph));
    const std::ptrdiff_t before = std::exchange(left, fused_bodies::left_in(inferred));
    if (left == before) break;
    graph = std::move(inferred);
  }
  return graph;
}

}  // namespace crumb::graph

// LibTorch's fused layers of a transformer, which archives traced without gradients hold.
#include <cmath>

#include "libtorch/capture/ops/families.h"

namespace crumb::libtorch {
namespace {

std::string linear(Op& op, const std::string& x, const char* weight, const char* bias) {
  const std::string y = op.net.add("MatMul", {x, op.net.transpose(op.tensor(weight), {1, 0})});
  return op.has(bias) ? op.net.add("Add", {y, op.tensor(bias)}) : y;
}

/// Self-attention of x [batch, time, width].
std::string attend(Op& op, const std::string& x, const char* heads_name) {
  Network& net = op.net;
  const std::int64_t width = op.integer("embed_dim"), heads = op.integer(heads_name), each = width / heads;
  const std::string qkv = linear(op, x, "qkv_weight", "qkv_bias");
  const Names parts =
      net.add_many("Split", {qkv, net.ints({width, width, width})}, {{"axis", std::int64_t{2}}}, 3);
  const auto by_heads = [&](std::size_t part, const Ints& order) {
    return net.transpose(net.add("Reshape", {parts[part], net.ints({0, 0, heads, each})}), order);
  };
  const std::string scale = net.scalar(1 / std::sqrt(static_cast<double>(each)), op.result().type);
  const std::string q = net.add("Mul", {by_heads(0, {0, 2, 1, 3}), scale});
  const std::string scores = net.add("MatMul", {q, by_heads(1, {0, 2, 3, 1})});
  const std::string weights = net.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  const std::string mixed = net.add("MatMul", {weights, by_heads(2, {0, 2, 1, 3})});
  const std::string joined =
      net.add("Reshape", {net.transpose(mixed, {0, 2, 1, 3}), net.ints({0, 0, width})});
  return linear(op, joined, "proj_weight", "proj_bias");
}

/// _transformer_encoder_layer_fwd(src [batch, time, width], ...).
void encoder_layer(Op& op) {
  Network& net = op.net;
  if (op.has("mask")) op.fail("a mask");
  const auto norm = [&](const std::string& x, const char* weight, const char* bias) {
    return net.add("LayerNormalization", {x, op.tensor(weight), op.tensor(bias)},
                   {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(op.real("eps"))}});
  };
  const auto norm_1 = [&](const std::string& x) { return norm(x, "norm_weight_1", "norm_bias_1"); };
  const auto norm_2 = [&](const std::string& x) { return norm(x, "norm_weight_2", "norm_bias_2"); };
  const auto feed_forward = [&](const std::string& x) {
    const std::string hidden = linear(op, x, "ffn_weight_1", "ffn_bias_1");
    const std::string active = net.add(op.flag("use_gelu") ? "Gelu" : "Relu", {hidden});
    return linear(op, active, "ffn_weight_2", "ffn_bias_2");
  };
  const std::string x = op.tensor("src");
  if (op.flag("norm_first")) {
    const std::string y = net.add("Add", {x, attend(op, norm_1(x), "num_heads")});
    return op.set(net.add("Add", {y, feed_forward(norm_2(y))}));
  }
  const std::string y = norm_1(net.add("Add", {x, attend(op, x, "num_heads")}));
  op.set(norm_2(net.add("Add", {y, feed_forward(y)})));
}

/// _native_multi_head_attention where query, key and value are one.
void self_attention(Op& op) {
  if (op.has("mask")) op.fail("a mask");
  if (op.wants(1)) op.fail("its attention weights are used");
  if (op.tensor("query") != op.tensor("key") || op.tensor("query") != op.tensor("value")) {
    op.fail("query, key and value are not one");
  }
  op.set(attend(op, op.tensor("query"), "num_head"));
}

constexpr ConversionRow kTransformerRows[] = {
    {"aten::_transformer_encoder_layer_fwd", encoder_layer},
    {"aten::_native_multi_head_attention", self_attention},
};

}  // namespace

std::span<const ConversionRow> transformer_conversions() { return kTransformerRows; }

}  // namespace crumb::libtorch

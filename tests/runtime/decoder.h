// A small decoder as language models have them: grouped heads, rotary positions, a soft cap, an additive mask that the graph
// computes, past and present; one graph for whole sequences and for steps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tests/support/samples.h"

namespace crumb::testing {

struct DecoderOptions {
  bool through_identity = false;  ///< the past goes through an operator more: no cache can grow in place
  bool reads_length = false;      ///< the graph asks for the past's shape
  bool half = false;              ///< the past is kept in float16
  float lowest = -3.4028235e38F;  ///< what the mask says of keys that are not to be seen
};

/// Inputs ids, positions int64 [batch, sequence], attention_mask int64 [batch, total], past_key_values.N.key and .value
/// [batch, 2, past, 8]; outputs logits and present.N.key and .value.
class Decoder {
 public:
  static constexpr std::int64_t kWidth = 32, kHeads = 4, kKvHeads = 2, kDepth = 8, kWords = 50, kPlaces = 256;
  static constexpr int kLayers = 2;

  explicit Decoder(DecoderOptions options = {}) : options_(options) {
    using graph::Dim;
    using graph::ElementType;
    graph_.inputs = {"ids", "positions", "attention_mask"};
    graph_.outputs = {"logits"};
    graph_.opsets[""] = 24;
    for (const char* name : {"ids", "positions"})
      graph_.values[name] = {ElementType::kInt64, graph::Shape{Dim("batch"), Dim("sequence")}, {}};
    graph_.values["attention_mask"] = {ElementType::kInt64, graph::Shape{Dim("batch"), Dim("total")}, {}};
    constant("table", {kWords, kWidth});
    constant("cos", {kPlaces, kDepth / 2});
    constant("sin", {kPlaces, kDepth / 2});
    integers("axis0", {0});
    integers("axis1", {1});
    integers("axis2", {2});
    graph_.initializers["zero"] = graph::Tensor::ints({}, std::vector<std::int64_t>{0});
    graph_.initializers["one"] = graph::Tensor::ints({}, std::vector<std::int64_t>{1});
    graph_.initializers["seen"] = graph::Tensor::floats({}, std::vector<float>{0});
    graph_.initializers["hidden"] = graph::Tensor::floats({}, std::vector<float>{options.lowest});
    // Key j is seen from position p where j <= p and attention_mask[j] is not 0.
    node("Shape", {"attention_mask"}, "mask_shape", {{"start", std::int64_t{1}}});
    node("Squeeze", {"mask_shape"}, "total");
    node("Range", {"zero", "total", "one"}, "keys");
    node("Unsqueeze", {"positions", "axis2"}, "queries");
    node("LessOrEqual", {"keys", "queries"}, "causal");
    node("Cast", {"attention_mask"}, "kept_keys", {{"to", std::int64_t{9}}});
    node("Unsqueeze", {"kept_keys", "axis1"}, "kept");
    node("And", {"causal", "kept"}, "is_seen");
    node("Where", {"is_seen", "seen", "hidden"}, "mask3");
    node("Unsqueeze", {"mask3", "axis1"}, "mask");
    node("Gather", {"table", "ids"}, "x0");
    std::string x = "x0";
    for (int layer = 0; layer < kLayers; ++layer) x = add_layer(layer, x);
    node("RMSNormalization", {x, vector("last_norm")}, "last");
    node("MatMul", {"last", constant("head", {kWidth, kWords})}, "logits");
  }

  const graph::Graph& graph() const { return graph_; }

 private:
  using Attributes = std::map<std::string, graph::Attribute>;

  std::string node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
                   const Attributes& attributes = {}) {
    graph_.nodes.push_back({.name = "n_" + output,
                            .op = op,
                            .domain = "",
                            .version = 24,
                            .inputs = inputs,
                            .outputs = {output},
                            .attributes = attributes});
    return output;
  }
  std::string constant(const std::string& name, const std::vector<std::int64_t>& shape) {
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    graph_.initializers[name] =
        graph::Tensor::floats(shape, normal_values(count, graph_.initializers.size() + 1, 0.3F));
    return name;
  }
  std::string vector(const std::string& name) { return constant(name, {kWidth}); }
  void integers(const std::string& name, const std::vector<std::int64_t>& values) {
    graph_.initializers[name] = graph::Tensor::ints({static_cast<std::int64_t>(values.size())}, values);
  }

  std::string add_past(const std::string& name, const std::string& past, const std::string& present) {
    using graph::Dim;
    graph_.inputs.push_back(past);
    graph_.outputs.push_back(present);
    const auto type = options_.half ? graph::ElementType::kFloat16 : graph::ElementType::kFloat;
    graph_.values[past] = {type, graph::Shape{Dim("batch"), Dim(kKvHeads), Dim("past"), Dim(kDepth)}, {}};
    graph_.values[present] = {type, graph::Shape{Dim("batch"), Dim(kKvHeads), Dim("total"), Dim(kDepth)}, {}};
    return options_.through_identity ? node("Neg", {node("Neg", {past}, "minus_" + name)}, "again_" + name)
                                     : past;
  }

  std::string add_layer(int layer, const std::string& x) {
    const std::string n = std::to_string(layer);
    const std::string key = "past_key_values." + n + ".key", value = "past_key_values." + n + ".value";
    const std::string past_key = add_past("key" + n, key, "present." + n + ".key");
    const std::string past_value = add_past("value" + n, value, "present." + n + ".value");
    const std::string normal = node("RMSNormalization", {x, vector("norm" + n)}, "normal" + n);
    const auto turned = [&](const std::string& name, std::int64_t heads) {
      const std::string made = node("MatMul", {normal, constant("w" + name, {kWidth, heads * kDepth})}, name);
      if (name[0] == 'v') return made;
      return node("RotaryEmbedding", {made, "cos", "sin", "positions"}, name + "_turned",
                  {{"num_heads", heads}});
    };
    std::string q = turned("q" + n, kHeads), k = turned("k" + n, kKvHeads), v = turned("v" + n, kKvHeads);
    std::string mask = "mask", attended = "attended" + n;
    if (options_.half) {
      const Attributes half{{"to", std::int64_t{10}}};
      for (std::string* const one : {&q, &k, &v}) *one = node("Cast", {*one}, *one + "_half", half);
      mask = node("Cast", {mask}, "mask_half" + n, half);
    }
    if (options_.reads_length) {  // and adds what is behind it to the mask, which is nothing
      node("Shape", {past_key}, "shape" + n);
      node("Gather", {"shape" + n, "axis2"}, "length" + n);
      node("Mul", {"length" + n, "zero"}, "nothing" + n);
      node("Cast", {"nothing" + n}, "nothing_float" + n, {{"to", std::int64_t{1}}});
      mask = node("Add", {mask, "nothing_float" + n}, "mask_with" + n);
    }
    graph_.nodes.push_back({.name = "attend" + n,
                            .op = "Attention",
                            .domain = "",
                            .version = 24,
                            .inputs = {q, k, v, mask, past_key, past_value},
                            .outputs = {attended, "present." + n + ".key", "present." + n + ".value"},
                            .attributes = {{"q_num_heads", kHeads}, {"kv_num_heads", kKvHeads}}});
    if (layer == 1) graph_.nodes.back().attributes["softcap"] = 5.0F;
    if (options_.half) attended = node("Cast", {attended}, attended + "_wide", {{"to", std::int64_t{1}}});
    node("MatMul", {attended, constant("wo" + n, {kWidth, kWidth})}, "o" + n);
    node("Add", {x, "o" + n}, "y" + n);
    node("RMSNormalization", {"y" + n, vector("norm_b" + n)}, "normal_b" + n);
    node("MatMul", {"normal_b" + n, constant("wgate" + n, {kWidth, 2 * kWidth})}, "gate" + n);
    node("MatMul", {"normal_b" + n, constant("wup" + n, {kWidth, 2 * kWidth})}, "up" + n);
    node("Swish", {"gate" + n}, "swish" + n);
    node("Mul", {"swish" + n, "up" + n}, "inner" + n);
    node("MatMul", {"inner" + n, constant("wdown" + n, {2 * kWidth, kWidth})}, "down" + n);
    return node("Add", {"y" + n, "down" + n}, "x" + std::to_string(layer + 1));
  }

  DecoderOptions options_;
  graph::Graph graph_;
};

}  // namespace crumb::testing

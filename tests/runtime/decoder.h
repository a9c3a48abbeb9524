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
  /// By layer, the layer whose keys and values it attends over, itself or an earlier one that has its own.
  std::vector<int> sources = {0, 1};
  /// How a layer reads an earlier one's.
  enum class Reads : std::uint8_t {
    kWhatItTakes,  ///< the same keys, values and past
    kAndNamesOwn,  ///< the same, with a present of its own that nobody takes
    kWhatItGives,  ///< its present
    kTwice,        ///< it computes them once more from the same input and weights, and keeps them by itself
  };
  Reads reads = Reads::kWhatItTakes;
};

/// Inputs ids, positions int64 [batch, sequence], attention_mask int64 [batch, total], past_key_values.N.key and .value
/// [batch, 2, past, 8]; outputs logits and present.N.key and .value.
class Decoder {
 public:
  static constexpr std::int64_t kWidth = 32, kHeads = 4, kKvHeads = 2, kDepth = 8, kWords = 50, kPlaces = 256;

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
    integers("by_head", {0, 0, kHeads, kDepth});
    integers("together", {0, 0, kWidth});
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
    for (int layer = 0; layer < static_cast<int>(options_.sources.size()); ++layer) x = add_layer(layer, x);
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

  /// What attention takes of keys and values.
  struct Kept {
    std::string k, v, past_key, past_value;
  };

  std::string projected(const std::string& name, const std::string& from, const std::string& weight,
                        std::int64_t heads) {
    const std::string made = node("MatMul", {from, weight}, name);
    if (name[0] == 'v') return made;
    return node("RotaryEmbedding", {made, "cos", "sin", "positions"}, name + "_turned",
                {{"num_heads", heads}});
  }

  std::string halved(const std::string& value) {
    return options_.half ? node("Cast", {value}, value + "_half", {{"to", std::int64_t{10}}}) : value;
  }

  /// Of layer n, from the input and the weights of layer `of`.
  Kept own_kept(const std::string& n, const std::string& of) {
    const std::string key = "past_key_values." + n + ".key", value = "past_key_values." + n + ".value";
    Kept made;
    made.past_key = add_past("key" + n, key, "present." + n + ".key");
    made.past_value = add_past("value" + n, value, "present." + n + ".value");
    const auto weight = [&](const std::string& name) {
      return n == of ? constant(name + n, {kWidth, kKvHeads * kDepth}) : name + of;
    };
    made.k = halved(projected("k" + n, "normal" + of, weight("wk"), kKvHeads));
    made.v = halved(projected("v" + n, "normal" + of, weight("wv"), kKvHeads));
    return made;
  }

  /// Attention with heads as an axis over what another node gives as its present.
  std::string attend_to_present(const std::string& n, const std::string& q, const std::string& mask,
                                const std::string& of, const Attributes& how) {
    const Attributes turn{{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}};
    node("Reshape", {q, "by_head"}, "q_split" + n);
    node("Transpose", {"q_split" + n}, "q_heads" + n, turn);
    node("Attention", {"q_heads" + n, "present." + of + ".key", "present." + of + ".value", mask},
         "heads" + n, how);
    node("Transpose", {"heads" + n}, "heads_back" + n, turn);
    return node("Reshape", {"heads_back" + n, "together"}, "attended" + n);
  }

  std::string add_layer(int layer, const std::string& x) {
    using Reads = DecoderOptions::Reads;
    const std::string n = std::to_string(layer);
    const std::string of = std::to_string(options_.sources[static_cast<std::size_t>(layer)]);
    const std::string normal = node("RMSNormalization", {x, vector("norm" + n)}, "normal" + n);
    const bool keeps = of == n || options_.reads == Reads::kTwice;
    const std::string q = halved(projected("q" + n, normal, constant("wq" + n, {kWidth, kWidth}), kHeads));
    if (keeps) kept_[n] = own_kept(n, of);
    const auto& [k, v, past_key, past_value] = kept_.at(keeps ? n : of);
    std::string mask = "mask", attended = "attended" + n;
    if (options_.half) mask = node("Cast", {mask}, "mask_half" + n, {{"to", std::int64_t{10}}});
    if (options_.reads_length) {  // and adds what is behind it to the mask, which is nothing
      node("Shape", {past_key}, "shape" + n);
      node("Gather", {"shape" + n, "axis2"}, "length" + n);
      node("Mul", {"length" + n, "zero"}, "nothing" + n);
      node("Cast", {"nothing" + n}, "nothing_float" + n, {{"to", std::int64_t{1}}});
      mask = node("Add", {mask, "nothing_float" + n}, "mask_with" + n);
    }
    Attributes how;
    if (layer == 1) how["softcap"] = 5.0F;
    if (keeps || options_.reads != Reads::kWhatItGives) {
      how.insert({{"q_num_heads", kHeads}, {"kv_num_heads", kKvHeads}});
      graph_.nodes.push_back({.name = "attend" + n,
                              .op = "Attention",
                              .domain = "",
                              .version = 24,
                              .inputs = {q, k, v, mask, past_key, past_value},
                              .outputs = {attended},
                              .attributes = how});
      if (keeps)
        graph_.nodes.back().outputs.insert(graph_.nodes.back().outputs.end(),
                                           {"present." + n + ".key", "present." + n + ".value"});
      else if (options_.reads == Reads::kAndNamesOwn)
        graph_.nodes.back().outputs.insert(graph_.nodes.back().outputs.end(),
                                           {"unused_key" + n, "unused_value" + n});
    } else {
      attend_to_present(n, q, mask, of, how);
    }
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
  std::map<std::string, Kept> kept_;  ///< by layer
};

}  // namespace crumb::testing

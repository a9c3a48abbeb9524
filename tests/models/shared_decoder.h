// Tiny decoders of many families with drawn weights, whose later layers may attend over an earlier layer's
// keys and values.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "formats/checkpoint/decoder_config.h"
#include "graph/onnx/infer_shapes.h"
#include "models/decoder.h"
#include "models/model_weights.h"
#include "tests/models/memory_source.h"

namespace crumb::testing {

inline constexpr std::int64_t kSharedWords = 24;

/// Any tensor that a network asks for; the same for the same seed and name.
class DrawnWeights final : public models::ModelWeights {
 public:
  explicit DrawnWeights(unsigned seed) : ModelWeights(nothing_), seed_(seed) {}

  void add(graph::Graph& graph, const std::string& name, const std::vector<size_t>& shape,
           const std::vector<std::int64_t>& axes) override {
    if (graph.constant(name)) return;
    std::mt19937 random(seed_ ^ static_cast<unsigned>(std::hash<std::string>()(name)));
    std::normal_distribution<float> normal;
    size_t count = 1;
    for (const size_t size : shape) count *= size;
    const float size = shape.size() == 1 ? 0.3F : 1.5F / std::sqrt(static_cast<float>(shape.back()));
    std::vector<float> values(count);
    for (float& value : values) value = (shape.size() == 1 ? 1.0F : 0.0F) + size * normal(random);
    add_floats(graph, name, values, shape, axes);
    asked.insert(name);
  }

  std::set<std::string> asked;

 private:
  MemorySource nothing_;
  unsigned seed_;
};

/// Of a family that has a query, a key and a value projection, with or without windows, norms of heads and
/// caps.
inline DecoderConfig drawn_decoder(std::mt19937& random, bool shares) {
  static constexpr std::array<const char*, 6> kTypes = {"llama",       "qwen3", "gemma2",
                                                        "gemma3_text", "olmo2", "smollm3"};
  const size_t layers = 2 + random() % 4;
  const nlohmann::json config = {{"model_type", kTypes[random() % kTypes.size()]},
                                 {"hidden_size", 32},
                                 {"intermediate_size", 40},
                                 {"num_hidden_layers", layers},
                                 {"num_attention_heads", 4},
                                 {"num_key_value_heads", random() % 2 == 0 ? 2 : 1},
                                 {"head_dim", 8},
                                 {"vocab_size", kSharedWords},
                                 {"max_position_embeddings", 128},
                                 {"sliding_window", 5},
                                 {"sliding_window_pattern", 2},
                                 {"query_pre_attn_scalar", 8},
                                 {"tie_word_embeddings", random() % 2 == 0}};
  DecoderConfig made = DecoderConfig::parse(JsonFile("config.json", config.dump()));
  std::vector<size_t> own{0};
  for (size_t i = 1; i < layers && shares; ++i) {
    if (i + 1 < layers && random() % 2 == 0) {
      own.push_back(i);
    } else {
      made.layers[i].kv_source = own[random() % own.size()];
    }
  }
  return made;
}

inline graph::Graph shared_decoder(const DecoderConfig& config, unsigned seed) {
  DrawnWeights weights(seed);
  return graph::infer_shapes(models::build_decoder(weights, config));
}

/// The same decoder, whose layers with a kv_source compute that layer's keys and values once more, from its
/// input and its weights, and keep them by themselves.
inline graph::Graph with_projections_twice(const DecoderConfig& config, unsigned seed) {
  graph::Graph graph = shared_decoder(config, seed);
  const auto layer = [](size_t i) { return "model.layers." + std::to_string(i) + ".self_attn."; };
  for (size_t i = 0; i < config.layers.size(); ++i) {
    if (!config.layers[i].kv_source) continue;
    const std::string from = layer(*config.layers[i].kv_source), to = "again." + layer(i);
    const auto renamed = [&](const std::string& value) {
      const bool is_of_keys = value.starts_with(from + "k") || value.starts_with(from + "v");
      return is_of_keys && !graph.constant(value) ? to + value.substr(from.size()) : value;
    };
    std::vector<graph::Node> nodes;
    for (const graph::Node& node : graph.nodes) {
      if (node.name != layer(i) + "attention") {
        nodes.push_back(node);
        continue;
      }
      for (const graph::Node& projection : graph.nodes) {
        if (renamed(projection.outputs[0]) == projection.outputs[0]) continue;
        graph::Node copy = projection;
        copy.name = to + projection.name;
        for (auto* const names : {&copy.inputs, &copy.outputs})
          for (std::string& value : *names) value = renamed(value);
        nodes.push_back(std::move(copy));
      }
      graph::Node attention = node;
      const std::string past = "past_key_values." + std::to_string(i),
                        present = "present." + std::to_string(i);
      for (const size_t input : {1, 2}) attention.inputs[input] = renamed(node.inputs[input]);
      for (const auto& [part, input, output] : {std::tuple(".key", 4, 1), std::tuple(".value", 5, 2)}) {
        graph.values[past + part] = *graph.find(node.inputs[static_cast<size_t>(input)]);
        graph.inputs.push_back(past + part);
        graph.outputs.push_back(present + part);
        attention.inputs[static_cast<size_t>(input)] = past + part;
        attention.outputs[static_cast<size_t>(output)] = present + part;
      }
      nodes.push_back(std::move(attention));
    }
    graph.nodes = std::move(nodes);
  }
  return graph::infer_shapes(graph::sorted(std::move(graph)));
}

/// Layers with keys and values of their own.
inline size_t layers_with_own(const DecoderConfig& config) {
  return static_cast<size_t>(
      std::ranges::count_if(config.layers, [](const DecoderLayer& layer) { return !layer.kv_source; }));
}

}  // namespace crumb::testing

#include "models/resized_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/files/text.h"
#include "formats/checkpoint/decoder_config.h"

namespace crumb::models {
namespace {

/// A key of config.json, and what it says of a layer.
struct SizeKey {
  const char* key;
  std::size_t DecoderLayer::*size;
};
constexpr SizeKey kSizes[] = {{"intermediate_size", &DecoderLayer::inner_size},
                              {"num_attention_heads", &DecoderLayer::heads},
                              {"num_key_value_heads", &DecoderLayer::kv_heads}};

/// How many channels a matrix takes that gives the residual stream's.
std::size_t inputs_of(const graph::Graph& graph, const std::string& weight, std::size_t outputs) {
  const graph::Tensor* const found = graph.constant(weight);
  if (!found || found->rank() != 2 || found->size() % static_cast<std::int64_t>(outputs) != 0)
    throw Error("the smaller network has no matrix " + quote_text(weight) + " of " + std::to_string(outputs) +
                " outputs, by which config.json could say its sizes");
  return static_cast<std::size_t>(found->size()) / outputs;
}

/// The sizes that the network's layers have.
std::vector<DecoderLayer> layers_of(const graph::Graph& graph, const DecoderConfig& config) {
  std::vector<DecoderLayer> layers = config.layers;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string name = "model.layers." + std::to_string(i) + ".";
    layers[i].inner_size = inputs_of(graph, name + "mlp.down_proj.weight", config.hidden_size);
    const std::size_t width = inputs_of(graph, name + "self_attn.o_proj.weight", config.hidden_size);
    const std::string present = "present." + std::to_string(i) + ".key";
    const auto node = std::ranges::find_if(graph.nodes, [&](const graph::Node& one) {
      return one.is("Attention") && std::ranges::find(one.outputs, present) != one.outputs.end();
    });
    if (node == graph.nodes.end())
      throw Error("the smaller network has no attention that makes " + quote_text(present));
    layers[i].heads = static_cast<std::size_t>(node->int_or("q_num_heads", 0));
    layers[i].kv_heads = static_cast<std::size_t>(node->int_or("kv_num_heads", 0));
    if (layers[i].heads * config.head_size != width)
      throw Error("layer " + std::to_string(i) + " of the smaller network has " +
                  std::to_string(layers[i].heads) + " heads of " + std::to_string(config.head_size) +
                  " elements, and " + quote_text(name + "self_attn.o_proj.weight") + " takes " +
                  std::to_string(width));
  }
  return layers;
}

}  // namespace

std::map<std::string, std::string> resized_files(const WeightSource& checkpoint,
                                                 const graph::Graph& smaller) {
  constexpr const char* kPath = "config.json";
  const std::optional<std::string> text = checkpoint.file(kPath);
  if (!text) throw Error("the checkpoint has no config.json, which would say the sizes of a smaller network");
  const JsonFile file(kPath, *text);
  const std::string type = file.string("model_type").value_or("");
  if (!DecoderConfig::knows(type))
    throw Error("config.json of " + quote_text(type) +
                " cannot say the sizes of a smaller network; those of decoders can");
  const DecoderConfig config = DecoderConfig::parse(file);
  const std::vector<DecoderLayer> layers = layers_of(smaller, config);
  if (layers == config.layers) return {};
  nlohmann::ordered_json made = nlohmann::ordered_json::parse(*text);
  for (const SizeKey& one : kSizes) {
    std::vector<std::size_t> sizes;
    for (const DecoderLayer& layer : layers) sizes.push_back(layer.*one.size);
    if (std::ranges::all_of(sizes, [&](std::size_t size) { return size == sizes[0]; }))
      made[one.key] = sizes[0];
    else
      made[one.key] = sizes;
  }
  made["head_dim"] = config.head_size;  // which cannot be told from the heads any more
  return {{kPath, made.dump(2) + "\n"}};
}

}  // namespace crumb::models

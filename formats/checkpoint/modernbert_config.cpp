#include "formats/checkpoint/modernbert_config.h"

#include <optional>

#include "formats/checkpoint/score_head.h"

namespace crumb {
namespace {

using nlohmann::json;

constexpr std::size_t kMostEncoderLayers = 1 << 14, kMostOfEncoderHead = 1 << 16;
constexpr const char *kGlobal = "full_attention", *kLocal = "sliding_attention";

/// Which layers are local: by "layer_types", else all but every n-th from the first on.
std::vector<bool> local_layers(const JsonFile& file, std::size_t layers) {
  std::vector<bool> made;
  const auto types = file.root().find("layer_types");
  if (types == file.root().end() || types->is_null()) {
    const std::size_t every = file.count("global_attn_every_n_layers", 1).value_or(3);
    for (std::size_t i = 0; i < layers; ++i) made.push_back(i % every != 0);
    return made;
  }
  if (!types->is_array() || types->size() != layers)
    throw file.error("\"layer_types\" must be a list of " + std::to_string(layers) + " names");
  for (const json& type : *types) {
    if (type != kGlobal && type != kLocal)
      throw file.error("\"layer_types\" has " + type.dump(-1, ' ', true, json::error_handler_t::replace) +
                       "; supported are " + kGlobal + " and " + kLocal);
    made.push_back(type == kLocal);
  }
  return made;
}

/// Of one kind of layers: "rope_parameters" of that kind, else the key that held its theta before.
RotaryEmbedding rotation_of_kind(const JsonFile& file, const char* kind, const char* theta_key,
                                 const RotationDefaults& usual) {
  json own = json::object();
  if (file.has("rope_scaling") && !file.root().at("rope_scaling").empty())
    throw file.error("rope_scaling is not supported; expected rope_parameters by kinds of layers");
  if (file.has("rope_parameters")) {
    const json& all = file.root().at("rope_parameters");
    if (!all.is_object()) throw file.error("\"rope_parameters\" must be an object");
    const auto found = all.find(kind);
    if (found != all.end() && !found->is_null()) own = *found;
    if (!own.is_object())
      throw file.error("\"rope_parameters\": \"" + std::string(kind) + "\" must be an object");
  }
  if (!own.contains("rope_theta")) own["rope_theta"] = file.number(theta_key).value_or(usual.theta);
  RotaryEmbedding made = parse_rotation(file, &own, usual);
  if (!made.long_frequencies.empty())
    throw file.error("\"rope_parameters\": rotations that depend on the length of a text are not supported");
  return made;
}

Activation activation_named(const JsonFile& file, const char* key) {
  const std::string name = file.string(key).value_or("gelu");
  const auto activation = parse_activation(name);
  if (!activation)
    throw file.error(std::string(key) + " is \"" + name +
                     "\"; supported are gelu, gelu_new, gelu_pytorch_tanh, relu and silu");
  return *activation;
}

/// Of the head that scores texts: what is wrong in it matters to models that have one alone.
ModernBertConfig::Head read_head(const JsonFile& file) {
  ModernBertConfig::Head head;
  if (!ScoreHead::architecture_of(file)) return head;
  const std::string pooling = file.string("classifier_pooling").value_or("cls");
  if (pooling != "cls" && pooling != "mean")
    throw file.error("classifier_pooling is \"" + pooling + "\"; supported are cls and mean");
  head.pools_mean = pooling == "mean";
  head.bias = file.boolean("classifier_bias").value_or(false);
  head.activation = activation_named(file, "classifier_activation");
  return head;
}

}  // namespace

ModernBertConfig ModernBertConfig::parse(const JsonFile& file) {
  const std::string type = file.string("model_type").value_or("");
  if (type != kModelType)
    throw file.error("the architecture is \"" + type + "\"; supported is \"" + kModelType + "\"");
  ModernBertConfig config;
  config.hidden_size = file.required_count("hidden_size", 1);
  config.num_heads = file.required_count("num_attention_heads", 1);
  config.intermediate_size = file.required_count("intermediate_size", 1);
  config.vocab_size = file.required_count("vocab_size", 1);
  config.max_positions = file.count("max_position_embeddings", 2).value_or(8192);
  const std::size_t layers = file.required_count("num_hidden_layers", 0);
  if (layers > kMostEncoderLayers)
    throw file.error("num_hidden_layers is " + std::to_string(layers) + ", expected at most " +
                     std::to_string(kMostEncoderLayers));
  config.is_local = local_layers(file, layers);
  config.reach = file.count("local_attention", 1).value_or(128) / 2;
  if (config.hidden_size % config.num_heads != 0)
    throw file.error("hidden_size " + std::to_string(config.hidden_size) +
                     " is no multiple of num_attention_heads " + std::to_string(config.num_heads));
  const std::size_t depth = config.hidden_size / config.num_heads;
  if (depth % 2 != 0 || depth > kMostOfEncoderHead)
    throw file.error("a head has " + std::to_string(depth) + " elements, expected an even number up to " +
                     std::to_string(kMostOfEncoderHead));
  const auto turned = [&](const char* kind, const char* key, double theta) {
    return rotation_of_kind(file, kind, key,
                            {.theta = theta, .size = depth, .max_positions = config.max_positions});
  };
  config.global = turned(kGlobal, "global_rope_theta", 160000);
  config.local = turned(kLocal, "local_rope_theta", 10000);
  const double epsilon = file.number("norm_eps").value_or(1e-5);
  if (!(epsilon >= 0 && epsilon < 1)) throw file.error("norm_eps must lie in [0, 1)");
  config.norm_epsilon = static_cast<float>(epsilon);
  config.norm_bias = file.boolean("norm_bias").value_or(false);
  config.attention_bias = file.boolean("attention_bias").value_or(false);
  config.mlp_bias = file.boolean("mlp_bias").value_or(false);
  config.activation = activation_named(file, "hidden_activation");
  config.head = read_head(file);
  return config;
}

}  // namespace crumb

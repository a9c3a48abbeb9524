#include "export/gguf/network.h"

#include <algorithm>
#include <cmath>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "formats/gguf/gguf_metadata.h"
#include "formats/gguf/rope_scaling.h"
#include "models/configured_network.h"

namespace crumb::exporting {
namespace {

using NetworkJson = nlohmann::json;

constexpr float kFrequencyTolerance = 1e-4F;  // relative; the factors are float32 and found again from them
constexpr float kFactorTolerance = 1e-6F;     // relative; it may be kept as a multiple of the usual one

std::string text_of_bytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::size_t widest_window(const DecoderConfig& config) {
  std::size_t widest = 0;
  for (const DecoderLayer& layer : config.layers) widest = std::max(widest, layer.window);
  return widest;
}

/// The scaling of rotary embeddings in the file, that of full-attention layers where layers differ; null
/// where there is none.
NetworkJson scaling_in(const NetworkJson& root) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto found = root.find(key);
    if (found == root.end() || !found->is_object() || found->empty()) continue;
    const auto full = found->find("full_attention");
    return full != found->end() ? *full : *found;
  }
  return nullptr;
}

constexpr const char* kOriginal = "original_max_position_embeddings";

/// With what the decoder takes where nothing is said (formats/checkpoint/rotary_config.h).
NetworkJson with_usual_values(NetworkJson scaling, const NetworkJson& root, const DecoderConfig& config) {
  if (!scaling.is_object()) return scaling;
  const RotaryEmbedding& rotation = config.rotations.front();
  if (root.contains(kOriginal) && root[kOriginal].is_number()) scaling[kOriginal] = root[kOriginal];
  if (rotation.switch_at != 0) scaling[kOriginal] = rotation.switch_at;
  if (!scaling.contains(kOriginal)) scaling[kOriginal] = config.max_positions;
  if (!scaling.contains("factor"))
    scaling["factor"] = static_cast<double>(config.max_positions) / scaling[kOriginal].get<double>();
  scaling["attention_factor"] = rotation.factor;
  return scaling;
}

/// The configuration with all that config_metadata() asks for, as the decoder has it.
NetworkJson spelled_out(const NetworkJson& root, const DecoderConfig& config) {
  const DecoderLayer layer = config.layers.empty() ? DecoderLayer{} : config.layers[0];  // all have its sizes
  NetworkJson made = {{"hidden_size", config.hidden_size},
                      {"intermediate_size", layer.inner_size},
                      {"num_hidden_layers", config.layers.size()},
                      {"num_attention_heads", layer.heads},
                      {"num_key_value_heads", layer.kv_heads},
                      {"head_dim", config.head_size},
                      {"max_position_embeddings", config.max_positions},
                      {"rms_norm_eps", config.norm_epsilon},
                      {"rope_theta", config.rotations.front().theta},
                      {"rope_local_base_freq", config.rotations.back().theta},
                      {"rotary_size", config.rotary_size},
                      {"vocab_size", config.vocab_size},
                      {"rope_scaling", with_usual_values(scaling_in(root), root, config)}};
  if (const std::size_t window = widest_window(config); window != 0) made["sliding_window"] = window;
  if (config.attention_cap != 0) made["attn_logit_softcapping"] = config.attention_cap;
  if (config.logits_cap != 0) made["final_logit_softcapping"] = config.logits_cap;
  if (root.contains(kOriginal)) made[kOriginal] = root[kOriginal];
  if (const std::size_t switch_at = config.rotations.front().switch_at) made[kOriginal] = switch_at;
  return made;
}

/// Throws Error where llama.cpp's network of that architecture is another one, whatever the file says.
void expect_known_to_llama_cpp(const DecoderConfig& config, const GgufArchitecture& architecture) {
  const auto refuse = [&](bool has_it, const char* what) {
    if (has_it)
      throw Error("llama.cpp loads no " + std::string(what) + " of the architecture " +
                  quote_text(architecture.name) + ", which this model has");
  };
  if (const char* key = config.key_of_unequal_layers())
    throw Error("config.json: " + quote_text(key) +
                " differs from layer to layer, and llama.cpp loads layers of one size "
                "with the architecture " +
                quote_text(architecture.name));
  refuse(config.qkv_bias && architecture.biases == GgufBiases::kNone, "biases of q, k and v");
  refuse(config.output_bias && architecture.biases != GgufBiases::kAll, "bias behind attention");
  refuse(config.mlp_bias && architecture.biases != GgufBiases::kAll, "biases of the feed-forward network");
  const std::size_t window = widest_window(config);
  if (architecture.name == "phi3" && window != 0 && window < config.max_positions)
    throw Error("config.json: sliding_window is " + std::to_string(window) +
                ", and llama.cpp sees all of a text with the architecture phi3; expected null, or the " +
                std::to_string(config.max_positions) + " of max_position_embeddings");
}

std::string known_to_both() {
  std::string text = "mistral";
  for (const GgufArchitecture& architecture : gguf_architectures())
    text += ", " + std::string(architecture.model_type);
  return text;
}

template <class T>
void expect_equal(const char* what, const T& meant, const T& found) {
  if (meant == found) return;
  const auto number = [](const T& value) {
    if constexpr (std::is_floating_point_v<T>)
      return number_text(value);
    else
      return std::to_string(static_cast<long long>(value));
  };
  throw Error("GGUF has no word for its " + std::string(what) + ": it is " + number(meant) +
              ", and llama.cpp would take " + number(found));
}

bool near(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(
      a, b, [](float x, float y) { return std::abs(x - y) <= kFrequencyTolerance * std::abs(x); });
}

/// "sees a window of 5", for messages.
std::string layer_text(const DecoderLayer& layer, const DecoderConfig& config) {
  std::string text = layer.window == 0 ? "sees all" : "sees a window of " + std::to_string(layer.window);
  if (!layer.rotation) return text + " and has no positions";
  return text + " and turns by theta " + number_text(config.rotations[*layer.rotation].theta);
}

}  // namespace

std::string file_text(const TensorSource& source, const std::string& path) {
  if (const CrumbFile* packed = source.crumb()) {
    const PackedFile* file = packed->find_file(path);
    if (file == nullptr) return "";
    return text_of_bytes(packed->load(file->blob, "file " + quote_text(path)).take().bytes());
  }
  const ModelFile* file = source.checkpoint()->find_file(path);
  return file == nullptr ? "" : text_of_bytes(file->bytes);
}

GgufNetwork read_network_for_gguf(const TensorSource& source) {
  models::expect_network_of_configuration(source);
  const std::string text = file_text(source, "config.json");
  if (text.empty())
    throw Error("it holds no config.json, so nothing says which network this is; GGUF is for decoders (" +
                known_to_both() + ")");
  const JsonFile file("config.json", text);
  const std::string type = file.string("model_type").value_or("");
  GgufNetwork made;
  made.notes = models::notes_of_quantizers(source);
  made.architecture = find_gguf_architecture_of(type);
  if (made.architecture == nullptr || !DecoderConfig::knows(type))
    throw Error("config.json: the architecture is " + quote_text(type) + "; to GGUF go " + known_to_both());
  made.config = DecoderConfig::parse(file);
  if (file.boolean("use_bidirectional_attention").value_or(false))
    throw file.error(
        "use_bidirectional_attention is true: it is an encoder, and to GGUF go decoders, which see what came "
        "before");
  expect_known_to_llama_cpp(made.config, *made.architecture);
  const NetworkJson whole = spelled_out(file.root(), made.config);
  made.metadata = config_metadata(*made.architecture, whole).take();
  made.rope_tensors = rope_tensors(*made.architecture, whole).take();

  const std::string tokenizer = file_text(source, "tokenizer.json"),
                    settings = file_text(source, "tokenizer_config.json"),
                    generation = file_text(source, "generation_config.json"),
                    chat = file_text(source, "chat_template.jinja");
  std::vector<GgufPair> words = tokenizer_metadata({.tokenizer = tokenizer,
                                                    .tokenizer_config = settings,
                                                    .generation_config = generation,
                                                    .chat_template = chat},
                                                   file.root(), made.config.vocab_size, made.notes)
                                    .take();
  if (tokenizer.empty()) made.notes.push_back("there is no tokenizer.json: the file will have no tokenizer");
  std::ranges::move(words, std::back_inserter(made.metadata));
  return made;
}

void expect_same_decoder(const DecoderConfig& meant, const DecoderConfig& found) {
  expect_equal("hidden size", meant.hidden_size, found.hidden_size);
  expect_equal("vocabulary", meant.vocab_size, found.vocab_size);
  expect_equal("context length", meant.max_positions, found.max_positions);
  expect_equal("size of a head", meant.head_size, found.head_size);
  expect_equal("elements of a head that turn", meant.rotary_size, found.rotary_size);
  expect_equal("number of layers", meant.layers.size(), found.layers.size());
  expect_equal("activation", static_cast<int>(meant.activation), static_cast<int>(found.activation));
  expect_equal("epsilon of norms", meant.norm_epsilon, found.norm_epsilon);
  expect_equal("biases of q, k and v", meant.qkv_bias, found.qkv_bias);
  expect_equal("bias behind attention", meant.output_bias, found.output_bias);
  expect_equal("biases of the feed-forward network", meant.mlp_bias, found.mlp_bias);
  expect_equal("tying of embeddings", meant.tied, found.tied);
  expect_equal("scale of attention", meant.attention_scale, found.attention_scale);
  expect_equal("cap of attention scores", meant.attention_cap, found.attention_cap);
  expect_equal("cap of logits", meant.logits_cap, found.logits_cap);
  for (std::size_t i = 0; i < meant.layers.size(); ++i) {
    const DecoderLayer &a = meant.layers[i], &b = found.layers[i];
    expect_equal("feed-forward size", a.inner_size, b.inner_size);
    expect_equal("number of heads", a.heads, b.heads);
    expect_equal("number of key-value heads", a.kv_heads, b.kv_heads);
    const auto rotation = [](const DecoderConfig& config, const DecoderLayer& layer) {
      return layer.rotation ? config.rotations[*layer.rotation] : RotaryEmbedding{};
    };
    const RotaryEmbedding left = rotation(meant, a), right = rotation(found, b);
    if (a.window != b.window || a.rotation.has_value() != b.rotation.has_value() ||
        static_cast<float>(left.theta) != static_cast<float>(right.theta))
      throw Error("GGUF has no word for its layer " + std::to_string(i) + ": it " + layer_text(a, meant) +
                  ", and llama.cpp's " + layer_text(b, found));
    if (!near(left.frequencies, right.frequencies) || !near(left.long_frequencies, right.long_frequencies) ||
        left.switch_at != right.switch_at ||
        std::abs(left.factor - right.factor) > kFactorTolerance * left.factor)
      throw Error("GGUF does not give back the rotary frequencies of its layer " + std::to_string(i));
  }
}

}  // namespace crumb::exporting

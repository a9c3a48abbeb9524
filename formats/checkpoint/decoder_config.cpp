#include "formats/checkpoint/decoder_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace crumb {
namespace {

enum class Has : std::uint8_t { kNever, kAlways, kWhereAsked };
enum class Windows : std::uint8_t { kNone, kEverywhere, kQwen, kGemma2, kGemma3, kSmolLm };

/// What a "model_type" implies, as transformers' classes have it (5.23).
struct Family {
  std::string_view model_type;
  double theta = 10000, epsilon = 1e-6;
  std::size_t kv_heads = 0;      ///< where the file gives none; 0: as many as heads
  std::size_t head_size = 0;     ///< likewise; 0: hidden_size / heads
  std::size_t window = 0;        ///< likewise
  std::size_t positions = 2048;  ///< likewise
  bool tied = false;             ///< likewise
  Has qkv_bias = Has::kWhereAsked, output_bias = Has::kWhereAsked;  ///< "attention_bias"
  Has mlp_bias = Has::kNever;                                       ///< "mlp_bias"
  QueryNorm query_norm = QueryNorm::kNone;
  Windows windows = Windows::kNone;
  /// Norms multiply by 1 + weight, and layers have norms after as well; embeddings are scaled; activation and
  /// scale have Gemma's names.
  bool gemma = false;
  bool norm_before = true;  ///< else norms only after
  bool fused = false;
  bool partial = false;  ///< partial_rotary_factor is read
};

constexpr std::array<Family, 9> kFamilies = {{
    {.model_type = "gemma2",
     .kv_heads = 4,
     .head_size = 256,
     .window = 4096,
     .positions = 8192,
     .tied = true,
     .windows = Windows::kGemma2,
     .gemma = true},
    {.model_type = "gemma3_text",
     .theta = 1000000,
     .kv_heads = 4,
     .head_size = 256,
     .window = 4096,
     .positions = 131072,
     .tied = true,
     .query_norm = QueryNorm::kByHead,
     .windows = Windows::kGemma3,
     .gemma = true},
    {.model_type = "llama", .mlp_bias = Has::kWhereAsked},
    {.model_type = "mistral",
     .kv_heads = 8,
     .window = 4096,
     .positions = 131072,
     .qkv_bias = Has::kNever,
     .output_bias = Has::kNever,
     .windows = Windows::kEverywhere},
    {.model_type = "olmo2", .epsilon = 1e-5, .query_norm = QueryNorm::kAllHeads, .norm_before = false},
    {.model_type = "phi3",
     .epsilon = 1e-5,
     .positions = 4096,
     .qkv_bias = Has::kNever,
     .output_bias = Has::kNever,
     .windows = Windows::kEverywhere,
     .fused = true,
     .partial = true},
    {.model_type = "qwen2",
     .kv_heads = 32,
     .window = 4096,
     .positions = 32768,
     .qkv_bias = Has::kAlways,
     .output_bias = Has::kNever,
     .windows = Windows::kQwen},
    {.model_type = "qwen3",
     .kv_heads = 32,
     .head_size = 128,
     .window = 4096,
     .positions = 32768,
     .query_norm = QueryNorm::kByHead,
     .windows = Windows::kQwen},
    {.model_type = "smollm3",
     .theta = 2000000,
     .kv_heads = 4,
     .positions = 32768,
     .tied = true,
     .mlp_bias = Has::kWhereAsked,
     .windows = Windows::kSmolLm},
}};

const Family* family_of(std::string_view model_type) {
  const auto* const found = std::ranges::find(kFamilies, model_type, &Family::model_type);
  return found == kFamilies.end() ? nullptr : found;
}

bool is_null(const JsonFile& file, const char* key) {
  const auto found = file.root().find(key);
  return found != file.root().end() && found->is_null();
}

/// Returns an object of the file that is not empty; null where there is none.
const nlohmann::json* object_of(const JsonFile& file, const char* key) {
  const auto found = file.root().find(key);
  if (found == file.root().end() || found->is_null()) return nullptr;
  if (!found->is_object()) throw file.error("\"" + std::string(key) + "\" must be an object");
  return found->empty() ? nullptr : &*found;
}

/// Sizes that allocate memory before a tensor is read have bounds, far beyond those of any model.
constexpr std::size_t kMostLayers = 1 << 14, kMostOfHead = 1 << 16;

class DecoderParser {
 public:
  DecoderParser(const JsonFile& file, const Family& family) : file_(file), family_(family) {}

  DecoderConfig parse() {
    refuse_what_differs();
    made_.model_type = family_.model_type;
    sizes();
    norms();
    biases();
    scales();
    activation();
    rotations();
    layers();
    made_.fused = family_.fused;
    made_.tied = file_.boolean("tie_word_embeddings").value_or(family_.tied);
    return std::move(made_);
  }

 private:
  void refuse_what_differs() const {
    if (is_bidirectional() && family_.windows != Windows::kGemma3)
      throw file_.error(
          "use_bidirectional_attention is true; supported are decoders, which see what came before");
    if (!file_.boolean("is_causal").value_or(true))
      throw file_.error("is_causal is false; supported are decoders, which see what came before");
    if (file_.boolean("is_encoder_decoder").value_or(false))
      throw file_.error("is_encoder_decoder is true; supported are decoders alone");
    if (family_.partial) return;
    const double part = file_.number("partial_rotary_factor").value_or(1);
    if (part != 1)
      throw file_.error("partial_rotary_factor is not 1, which " + name() + " has no meaning for");
  }

  std::string name() const { return std::string(family_.model_type); }

  bool is_bidirectional() const { return file_.boolean("use_bidirectional_attention").value_or(false); }

  std::size_t at_most(std::size_t most, const char* key, std::size_t value) const {
    if (value <= most) return value;
    throw file_.error(std::string(key) + " is " + std::to_string(value) + ", expected at most " +
                      std::to_string(most));
  }

  /// One size for all layers, or one for each.
  using LayerSizes = std::vector<std::size_t>;
  static std::size_t of_layer(const LayerSizes& sizes, std::size_t layer) {
    return sizes[sizes.size() == 1 ? 0 : layer];
  }

  /// `usual`: the sizes where the file gives none; if that is empty, it is an error.
  LayerSizes sizes_of_layers(const char* key, LayerSizes usual = {}) const {
    const auto found = file_.root().find(key);
    if (found == file_.root().end() || !found->is_array()) {
      if (usual.empty()) return {file_.required_count(key, 1)};
      const auto given = file_.count(key, 1);
      return given ? LayerSizes{*given} : std::move(usual);
    }
    const std::string list = "\"" + std::string(key) + "\" is a list of " + std::to_string(found->size());
    if (found->empty() || found->size() != made_.layers.size())
      throw file_.error(list + ", expected a number, or a list of num_hidden_layers (" +
                        std::to_string(made_.layers.size()) + ")");
    LayerSizes sizes;
    for (const nlohmann::json& size : *found) {
      constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
      const std::int64_t value = size.is_number_integer() ? size.get<std::int64_t>() : 0;
      if (value < 1 || value > kMost)
        throw file_.error(list + ", and layer " + std::to_string(sizes.size()) + " has " + size.dump() +
                          ", expected a whole number from 1 on that fits 31 bits");
      sizes.push_back(static_cast<std::size_t>(value));
    }
    return sizes;
  }

  void sizes() {
    made_.hidden_size = file_.required_count("hidden_size", 1);
    made_.vocab_size = file_.required_count("vocab_size", 1);
    made_.layers.resize(
        at_most(kMostLayers, "num_hidden_layers", file_.required_count("num_hidden_layers", 0)));
    made_.max_positions = file_.count("max_position_embeddings", 1).value_or(family_.positions);
    const LayerSizes inner = sizes_of_layers("intermediate_size"),
                     heads = sizes_of_layers("num_attention_heads");
    const bool as_heads = family_.kv_heads == 0 || is_null(file_, "num_key_value_heads");
    const LayerSizes shared =
        sizes_of_layers("num_key_value_heads", as_heads ? heads : LayerSizes{family_.kv_heads});
    for (std::size_t i = 0; i < std::max(heads.size(), shared.size()); ++i) {
      const std::size_t own = of_layer(heads, i), kept = of_layer(shared, i);
      if (own % kept == 0) continue;
      throw file_.error((heads.size() + shared.size() == 2 ? "" : "layer " + std::to_string(i) + ": ") +
                        "num_attention_heads " + std::to_string(own) +
                        " is no multiple of num_key_value_heads " + std::to_string(kept));
    }
    for (std::size_t i = 0; i < made_.layers.size(); ++i) {
      made_.layers[i].inner_size = of_layer(inner, i);
      made_.layers[i].heads = of_layer(heads, i);
      made_.layers[i].kv_heads = of_layer(shared, i);
    }
    made_.head_size = at_most(kMostOfHead, "head_dim", head_size(heads));
  }

  std::size_t head_size(const LayerSizes& heads) const {
    if (const auto given = file_.count("head_dim", 1)) return *given;
    if (family_.head_size != 0 && !is_null(file_, "head_dim")) return family_.head_size;
    if (std::ranges::any_of(heads, [&](std::size_t own) { return own != heads[0]; }))
      throw file_.error("\"num_attention_heads\" differs from layer to layer, so \"head_dim\" is needed");
    if (made_.hidden_size % heads[0] == 0) return made_.hidden_size / heads[0];
    throw file_.error("hidden_size " + std::to_string(made_.hidden_size) +
                      " is no multiple of num_attention_heads " + std::to_string(heads[0]));
  }

  void norms() {
    const double epsilon = file_.number("rms_norm_eps").value_or(family_.epsilon);
    if (!(epsilon >= 0 && epsilon < 1)) throw file_.error("rms_norm_eps must lie in [0, 1)");
    made_.norm_epsilon = static_cast<float>(epsilon);
    made_.norm_plus_one = family_.gemma;
    made_.norm_before = family_.norm_before;
    made_.norm_after = family_.gemma || !family_.norm_before;
    made_.query_norm = family_.query_norm;
  }

  bool has(Has bias, const char* key) const {
    return bias == Has::kAlways || (bias == Has::kWhereAsked && file_.boolean(key).value_or(false));
  }

  void biases() {
    made_.qkv_bias = has(family_.qkv_bias, "attention_bias");
    made_.output_bias = has(family_.output_bias, "attention_bias");
    made_.mlp_bias = has(family_.mlp_bias, "mlp_bias");
  }

  float cap(const char* key, float usual) const {
    if (is_null(file_, key)) return 0;
    const double value = file_.number(key).value_or(usual);
    if (!(value >= 0) || !std::isfinite(value))
      throw file_.error("\"" + std::string(key) + "\" must not be below 0");
    return static_cast<float>(value);
  }

  void scales() {
    double width = static_cast<double>(made_.head_size);
    if (family_.gemma) {
      width = file_.number("query_pre_attn_scalar").value_or(256);
      if (!(width > 0) || !std::isfinite(width)) throw file_.error("query_pre_attn_scalar must be above 0");
      made_.embedding_scale = std::sqrt(static_cast<float>(made_.hidden_size));
      const bool second = family_.windows == Windows::kGemma2;
      made_.attention_cap = second ? cap("attn_logit_softcapping", 50) : 0;
      made_.logits_cap = cap("final_logit_softcapping", second ? 30 : 0);
    }
    made_.attention_scale = static_cast<float>(1 / std::sqrt(width));
  }

  void activation() {
    const char* const key = family_.gemma ? "hidden_activation" : "hidden_act";
    const std::string found = file_.string(key).value_or(family_.gemma ? "gelu_pytorch_tanh" : "silu");
    const auto known = parse_activation(found);
    if (!known)
      throw file_.error("\"" + std::string(key) + "\" is \"" + found +
                        "\"; supported are gelu, gelu_new, gelu_pytorch_tanh, relu and silu");
    made_.activation = *known;
  }

  void rotations() {
    const nlohmann::json* scaling = object_of(file_, "rope_scaling");
    if (!scaling) scaling = object_of(file_, "rope_parameters");
    made_.rotary_size = made_.head_size;
    if (family_.partial) {
      double part = file_.number("partial_rotary_factor").value_or(1);
      if (scaling && scaling->contains("partial_rotary_factor") &&
          scaling->at("partial_rotary_factor").is_number())
        part = scaling->at("partial_rotary_factor").get<double>();
      if (!(part > 0 && part <= 1)) throw file_.error("partial_rotary_factor must lie in (0, 1]");
      made_.rotary_size = static_cast<std::size_t>(static_cast<double>(made_.head_size) * part);
    }
    if (made_.rotary_size % 2 != 0 || made_.rotary_size == 0)
      throw file_.error("positions turn " + std::to_string(made_.rotary_size) +
                        " elements of a head, expected an even number");
    const RotationDefaults usual{
        .theta = family_.theta, .size = made_.rotary_size, .max_positions = made_.max_positions};
    if (family_.windows == Windows::kGemma3) {
      gemma3_rotations(scaling, usual);
    } else {
      const bool nested =
          scaling && (scaling->contains("full_attention") || scaling->contains("sliding_attention"));
      if (nested)
        throw file_.error("its rope_parameters go by kinds of layers, which " + name() + " does not have");
      made_.rotations = {family_.fused ? phi3_rotation(scaling, usual)
                                       : parse_rotation(file_, scaling, usual)};
    }
  }

  /// Phi-3's own default of original_max_position_embeddings overrides the one in the scaling.
  RotaryEmbedding phi3_rotation(const nlohmann::json* scaling, const RotationDefaults& usual) const {
    constexpr const char* kKey = "original_max_position_embeddings";
    nlohmann::json root = file_.root();
    if (!file_.has(kKey)) root[kKey] = 4096;
    nlohmann::json own = scaling ? *scaling : nlohmann::json::object();
    for (const char* key : {"type", "rope_type"}) {
      if (own.contains(key) && own[key] == "yarn") own[key] = "longrope";
    }
    return parse_rotation(JsonFile(file_.name(), root.dump()), &own, usual);
  }

  /// Makes the rotation of full layers, then of sliding ones: these have a theta of their own, and not the
  /// scaling of the file's old form.
  void gemma3_rotations(const nlohmann::json* scaling, const RotationDefaults& usual) {
    const nlohmann::json *full = scaling, *sliding = nullptr;
    const bool nested =
        scaling && (scaling->contains("full_attention") || scaling->contains("sliding_attention"));
    if (nested) {
      const auto part = [&](const char* key) {
        const auto found = scaling->find(key);
        return found == scaling->end() || !found->is_object() ? nullptr : &*found;
      };
      full = part("full_attention");
      sliding = part("sliding_attention");
    } else if (scaling && !file_.has("rope_scaling")) {
      throw file_.error(
          "its rope_parameters do not go by kinds of layers (full_attention, sliding_attention)");
    }
    nlohmann::json local = sliding ? *sliding : nlohmann::json::object();
    if (!local.contains("rope_theta"))
      local["rope_theta"] = file_.number("rope_local_base_freq").value_or(10000);
    made_.rotations = {parse_rotation(file_, full, usual), parse_rotation(file_, &local, usual)};
  }

  /// Reads "layer_types"; returns nothing where the file has none.
  std::optional<std::vector<bool>> sliding_by_types() const {
    const auto found = file_.root().find("layer_types");
    if (found == file_.root().end() || found->is_null()) return std::nullopt;
    if (!found->is_array() || found->size() != made_.layers.size())
      throw file_.error("\"layer_types\" must be a list of " + std::to_string(made_.layers.size()) +
                        " names");
    std::vector<bool> sliding;
    for (const auto& type : *found) {
      const bool slides = type == "sliding_attention";
      if (!slides && type != "full_attention")
        throw file_.error("\"layer_types\" has " +
                          type.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) +
                          "; supported are full_attention and sliding_attention");
      sliding.push_back(slides);
    }
    return sliding;
  }

  bool slides(std::size_t layer, const std::optional<std::vector<bool>>& types) const {
    switch (family_.windows) {
      case Windows::kNone: return false;
      case Windows::kEverywhere: return true;
      case Windows::kQwen:
        if (!file_.boolean("use_sliding_window").value_or(false)) return false;
        return types ? (*types)[layer] : layer >= file_.count("max_window_layers").value_or(28);
      case Windows::kGemma2: return types ? (*types)[layer] : layer % 2 == 0;
      case Windows::kGemma3: {
        const std::size_t pattern = file_.count("sliding_window_pattern", 1).value_or(6);
        return types ? (*types)[layer] : (layer + 1) % pattern != 0;
      }
      case Windows::kSmolLm:
        return types ? (*types)[layer]
                     : file_.boolean("use_sliding_window").value_or(false) && !is_rotated(layer);
    }
    return false;
  }

  /// Whether a layer rotates by positions. The file's name for it says the opposite of what it means.
  bool is_rotated(std::size_t layer) const {
    if (family_.windows != Windows::kSmolLm) return true;
    const auto found = file_.root().find("no_rope_layers");
    if (found == file_.root().end() || found->is_null()) {
      const std::size_t interval = file_.count("no_rope_layer_interval", 1).value_or(4);
      return (layer + 1) % interval != 0;
    }
    if (!found->is_array() || found->size() != made_.layers.size() || !(*found)[layer].is_number_integer())
      throw file_.error("\"no_rope_layers\" must be a list of " + std::to_string(made_.layers.size()) +
                        " numbers, 0 or 1");
    return (*found)[layer].get<int>() != 0;
  }

  void layers() {
    const bool none = is_null(file_, "sliding_window");
    const std::size_t given = none ? 0 : file_.count("sliding_window", 1).value_or(family_.window);
    // Where both sides are seen, the file counts the keys of both, and the window those of one side and the
    // own.
    const std::size_t window = is_bidirectional() && !none ? given / 2 + 1 : given;
    const auto types = sliding_by_types();
    for (std::size_t i = 0; i < made_.layers.size(); ++i) {
      DecoderLayer& layer = made_.layers[i];
      const bool is_sliding = slides(i, types);
      if (is_sliding) layer.window = window;
      if (is_rotated(i)) layer.rotation = is_sliding ? made_.rotations.size() - 1 : 0;
    }
  }

  const JsonFile& file_;
  const Family& family_;
  DecoderConfig made_;
};

}  // namespace

const char* DecoderConfig::key_of_unequal_layers() const {
  const auto differs = [&](std::size_t DecoderLayer::*size) {
    return std::ranges::any_of(layers,
                               [&](const DecoderLayer& layer) { return layer.*size != layers[0].*size; });
  };
  return differs(&DecoderLayer::inner_size) ? "intermediate_size"
         : differs(&DecoderLayer::heads)    ? "num_attention_heads"
         : differs(&DecoderLayer::kv_heads) ? "num_key_value_heads"
                                            : nullptr;
}

bool DecoderConfig::knows(std::string_view model_type) { return family_of(model_type) != nullptr; }

std::string DecoderConfig::known() {
  std::string text;
  for (const Family& family : kFamilies) text += (text.empty() ? "" : ", ") + std::string(family.model_type);
  return text;
}

DecoderConfig DecoderConfig::parse(const JsonFile& file) {
  const std::string type = file.string("model_type").value_or("");
  const Family* const family = family_of(type);
  if (!family) throw file.error("the architecture is \"" + type + "\"; supported are " + known());
  return DecoderParser(file, *family).parse();
}

}  // namespace crumb

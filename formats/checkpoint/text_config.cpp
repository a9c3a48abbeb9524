#include "formats/checkpoint/text_config.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace crumb {
namespace {

using Json = nlohmann::json;

/// Which matrix makes the logits where no key says it.
enum class TextHead : std::uint8_t { kOwn, kEmbeddings, kOwnWhereStored };

struct TextModel {
  std::string_view model_type;           ///< of the whole
  std::string_view text_type;            ///< of its text
  std::string_view decoder, class_name;  ///< what the text is by itself
  TextHead head;
  bool may_be_flat;      ///< the text's keys may lie beside the others
  const char* defaults;  ///< of the text's class (transformers 5.23), where the decoder's are others
};

constexpr std::array<TextModel, 5> kTextModels = {{
    {"gemma3", "gemma3_text", "gemma3_text", "Gemma3ForCausalLM", TextHead::kEmbeddings, false,
     R"({"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
         "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096,
         "max_position_embeddings": 131072, "query_pre_attn_scalar": 256})"},
    {"mistral3", "mistral", "mistral", "MistralForCausalLM", TextHead::kOwnWhereStored, false,
     R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "sliding_window": 4096,
         "max_position_embeddings": 131072})"},
    {"qwen2_vl", "qwen2_vl_text", "qwen2", "Qwen2ForCausalLM", TextHead::kOwn, true,
     R"({"vocab_size": 152064, "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80,
         "num_attention_heads": 64, "num_key_value_heads": 8, "max_position_embeddings": 32768,
         "rms_norm_eps": 1e-5, "rope_theta": 1000000.0, "sliding_window": 4096, "max_window_layers": 80})"},
    {"qwen2_5_vl", "qwen2_5_vl_text", "qwen2", "Qwen2ForCausalLM", TextHead::kOwn, true,
     R"({"vocab_size": 152064, "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80,
         "num_attention_heads": 64, "num_key_value_heads": 8, "max_position_embeddings": 32768,
         "rms_norm_eps": 1e-5, "rope_theta": 1000000.0, "sliding_window": 4096, "max_window_layers": 80})"},
    {"qwen3_vl", "qwen3_vl_text", "qwen3", "Qwen3ForCausalLM", TextHead::kOwn, false,
     R"({"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128,
         "max_position_embeddings": 128000, "rope_theta": 500000.0, "use_sliding_window": false})"},
}};

/// Of the whole model, where its text has none of its own or others.
constexpr std::array<const char*, 6> kSharedKeys = {"bos_token_id", "eos_token_id", "pad_token_id",
                                                    "torch_dtype",  "dtype",        "transformers_version"};

/// An entry that is there and not null.
const Json* given(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_at(const Json& object, const char* key) {
  const Json* const found = given(object, key);
  return found && found->is_string() ? found->get<std::string>() : "";
}

bool is_true(const Json* value) { return value && value->is_boolean() && value->get<bool>(); }

bool is_tied(const Json& whole, const Json& text, TextHead usual, bool has_head) {
  const Json *const of_all = given(whole, "tie_word_embeddings"), *const own =
                                                                      given(text, "tie_word_embeddings");
  if (of_all || own) return is_true(of_all) || is_true(own);
  return usual == TextHead::kEmbeddings || (usual == TextHead::kOwnWhereStored && !has_head);
}

/// The keys that part the positions among several axes.
void forget_axes_of_positions(Json& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_object()) continue;
    found->erase("mrope_section");
    found->erase("mrope_interleaved");
    for (const char* type : {"type", "rope_type"})
      if (text_at(*found, type) == "mrope") (*found)[type] = "default";
  }
}

}  // namespace

std::optional<Json> text_config_of(const Json& config, bool has_head) {
  const std::string type = text_at(config, "model_type");
  const auto* const part = std::find_if(kTextModels.begin(), kTextModels.end(),
                                        [&](const TextModel& one) { return one.model_type == type; });
  if (part == kTextModels.end()) return std::nullopt;
  const Json* const nested = given(config, "text_config");
  if (nested && !nested->is_object()) return std::nullopt;
  if (!nested && !part->may_be_flat) return std::nullopt;
  Json text = nested ? *nested : config;
  const std::string text_type = nested ? text_at(text, "model_type") : "";
  if (!text_type.empty() && text_type != part->text_type) return std::nullopt;

  std::erase_if(text.get_ref<Json::object_t&>(), [](const auto& entry) {
    return entry.first.starts_with("vision") || entry.first.starts_with("image_") ||
           entry.first.starts_with("video_");
  });
  for (const char* key : kSharedKeys)
    if (const Json* const found = given(config, key)) text[key] = *found;
  const Json* const scaling = given(text, "rope_scaling");
  const Json* const rotation = scaling ? scaling : given(text, "rope_parameters");
  const bool has_theta = rotation && rotation->is_object() && rotation->contains("rope_theta");
  const Json defaults = Json::parse(part->defaults);
  for (const auto& [key, value] : defaults.items())
    if (!text.contains(key) && !(has_theta && key == "rope_theta")) text[key] = value;
  forget_axes_of_positions(text);
  text["tie_word_embeddings"] = is_tied(config, text, part->head, has_head);
  text["model_type"] = part->decoder;
  text["architectures"] = Json::array({part->class_name});
  return text;
}

std::string known_text_models() {
  std::string text;
  for (const TextModel& part : kTextModels)
    text += (text.empty() ? "" : ", ") + std::string(part.model_type) + " (of " +
            std::string(part.text_type) + ")";
  return text;
}

}  // namespace crumb

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/files/counted.h"
#include "formats/gguf/hf_files.h"

namespace crumb {
namespace {

using Json = nlohmann::ordered_json;

/// The shortest decimal that gives the float32 that was stored: 1e-05, not 9.99999974737875e-06.
double shortest(double value) {
  const auto narrow = static_cast<float>(value);
  if (static_cast<double>(narrow) != value) return value;
  return std::strtod(number_text(narrow).c_str(), nullptr);
}

void put_natural(Json& config, const char* name, const std::optional<std::uint64_t>& value) {
  if (value) config[name] = *value;
}

void put_number(Json& config, const char* name, const std::optional<double>& value) {
  if (value) config[name] = shortest(*value);
}

void put_gemma(Json& config, GgufFields& fields, const GgufArchitecture& architecture, std::uint64_t head,
               std::uint64_t hidden, std::uint64_t heads, std::uint64_t layers) {
  const std::string prefix(std::string(architecture.name) + ".");
  config["hidden_activation"] = "gelu_pytorch_tanh";
  // The 27B models alone scale by another width than the head's.
  const std::uint64_t largest = architecture.name == "gemma2" ? 46 : 62;
  config["query_pre_attn_scalar"] = layers == largest && heads != 0 ? hidden / heads : head;
  put_number(config, "attn_logit_softcapping", fields.number(prefix + "attn_logit_softcapping"));
  put_number(config, "final_logit_softcapping", fields.number(prefix + "final_logit_softcapping"));
  if (architecture.name == "gemma3")
    config["rope_local_base_freq"] = shortest(fields.number(prefix + "rope.freq_base_swa").value_or(10000));
}

void put_rope(Json& config, GgufFields& fields, const std::string& prefix, const GgufTensorFacts& facts,
              double theta) {
  config["rope_theta"] = theta;
  if (facts.rope) {
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", facts.rope->factor},
                              {"low_freq_factor", facts.rope->low},
                              {"high_freq_factor", facts.rope->high},
                              {"original_max_position_embeddings", facts.rope->context}};
    return;
  }
  const std::string key = prefix + "rope.scaling.type";
  const std::optional<std::string_view> type = fields.text(key);
  if (!type || *type == "none") return;
  if (*type != "linear")
    return fields.refuse(key, "it is '" + std::string(*type) + "', expected 'none' or 'linear'");
  config["rope_scaling"] = {{"rope_type", "linear"},
                            {"factor", shortest(fields.number(prefix + "rope.scaling.factor").value_or(1))}};
}

}  // namespace

std::uint64_t gguf_head_size(GgufFields& fields, const std::string& architecture) {
  if (const auto size = fields.natural(architecture + ".attention.key_length")) return *size;
  const std::uint64_t heads = fields.needed(architecture + ".attention.head_count");
  return heads == 0 ? 0 : fields.needed(architecture + ".embedding_length") / heads;
}

std::string make_config(GgufFields& fields, const GgufArchitecture& architecture,
                        const GgufTensorFacts& facts) {
  const std::string prefix(std::string(architecture.name) + ".");
  const std::uint64_t hidden = fields.needed(prefix + "embedding_length");
  const std::uint64_t layers = fields.needed(prefix + "block_count");
  const std::uint64_t heads = fields.needed(prefix + "attention.head_count");
  const std::uint64_t head = gguf_head_size(fields, std::string(architecture.name));
  const bool is_gemma3 = architecture.name == "gemma3";
  Json config = {{"architectures", {std::string(architecture.class_name)}},
                 {"model_type", std::string(architecture.model_type)},
                 {"hidden_size", hidden},
                 {"intermediate_size", fields.needed(prefix + "feed_forward_length")},
                 {"num_hidden_layers", layers},
                 {"num_attention_heads", heads},
                 {"num_key_value_heads", fields.natural(prefix + "attention.head_count_kv").value_or(heads)},
                 {"head_dim", head},
                 {"max_position_embeddings", fields.needed(prefix + "context_length")},
                 {"vocab_size", facts.vocabulary},
                 {"tie_word_embeddings", !facts.has_output},
                 {"torch_dtype", "float32"}};
  put_number(config, "rms_norm_eps", fields.number(prefix + "attention.layer_norm_rms_epsilon"));
  put_rope(config, fields, prefix, facts,
           shortest(fields.number(prefix + "rope.freq_base").value_or(is_gemma3 ? 1e6 : 1e4)));
  put_natural(config, "sliding_window", fields.natural(prefix + "attention.sliding_window"));
  if (architecture.is_gemma)
    put_gemma(config, fields, architecture, head, hidden, heads, layers);
  else
    config["hidden_act"] = "silu";
  if (facts.has_attention_bias && architecture.name != "qwen2") config["attention_bias"] = true;
  if (architecture.name == "phi3") {
    if (const auto turned = fields.natural(prefix + "rope.dimension_count");
        turned && *turned < head && head != 0)
      config["partial_rotary_factor"] = static_cast<double>(*turned) / static_cast<double>(head);
    put_natural(config, "original_max_position_embeddings",
                fields.natural(prefix + "rope.scaling.original_context_length"));
  }
  put_natural(config, "bos_token_id", fields.natural("tokenizer.ggml.bos_token_id"));
  put_natural(config, "eos_token_id", fields.natural("tokenizer.ggml.eos_token_id"));
  // Without it transformers takes the architecture's usual one, which may lie outside the vocabulary.
  config["pad_token_id"] = nullptr;
  put_natural(config, "pad_token_id", fields.natural("tokenizer.ggml.padding_token_id"));
  return config.dump(2) + "\n";
}

std::string make_generation_config(GgufFields& fields) {
  Json config = Json::object();
  put_natural(config, "bos_token_id", fields.natural("tokenizer.ggml.bos_token_id"));
  const auto end = fields.natural("tokenizer.ggml.eos_token_id");
  const auto turn = fields.natural("tokenizer.ggml.eot_token_id");
  put_natural(config, "eos_token_id", end ? end : turn);
  if (end && turn && *end != *turn) config["eos_token_id"] = {*end, *turn};
  put_natural(config, "pad_token_id", fields.natural("tokenizer.ggml.padding_token_id"));
  return config.dump(2) + "\n";
}

}  // namespace crumb

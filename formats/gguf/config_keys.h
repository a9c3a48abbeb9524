// The names of fields that config.json and GGUF's metadata both have: the table by which each is made from
// the other. hf_config.cpp and gguf_metadata.cpp handle what takes more than another name (rotary scaling,
// tokens).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace crumb {

struct GgufConfigKey {
  enum class Kind : std::uint8_t {
    kNeeded,   ///< a natural number that every model has
    kNatural,  ///< a natural number
    kNumber
  };

  const char* hf;
  const char* gguf;  ///< behind the architecture's name and a dot
  Kind kind;
  std::string_view only = {};  ///< architectures whose names begin so; empty: all

  bool is_of(std::string_view architecture) const { return architecture.starts_with(only); }
};

/// The length of the texts that rotary scaling starts from, in config.json.
inline constexpr const char* kOriginalContext = "original_max_position_embeddings";

inline constexpr std::array<GgufConfigKey, 14> kGgufConfigKeys = {{
    {"hidden_size", "embedding_length", GgufConfigKey::Kind::kNeeded},
    {"intermediate_size", "feed_forward_length", GgufConfigKey::Kind::kNeeded},
    {"num_hidden_layers", "block_count", GgufConfigKey::Kind::kNeeded},
    {"num_attention_heads", "attention.head_count", GgufConfigKey::Kind::kNeeded},
    {"num_key_value_heads", "attention.head_count_kv", GgufConfigKey::Kind::kNatural},
    {"head_dim", "attention.key_length", GgufConfigKey::Kind::kNatural},
    {"max_position_embeddings", "context_length", GgufConfigKey::Kind::kNeeded},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon", GgufConfigKey::Kind::kNumber},
    {"rope_theta", "rope.freq_base", GgufConfigKey::Kind::kNumber},
    {"sliding_window", "attention.sliding_window", GgufConfigKey::Kind::kNatural},
    {"attn_logit_softcapping", "attn_logit_softcapping", GgufConfigKey::Kind::kNumber, "gemma"},
    {"final_logit_softcapping", "final_logit_softcapping", GgufConfigKey::Kind::kNumber, "gemma"},
    {"rope_local_base_freq", "rope.freq_base_swa", GgufConfigKey::Kind::kNumber, "gemma3"},
    {kOriginalContext, "rope.scaling.original_context_length", GgufConfigKey::Kind::kNatural, "phi3"},
}};

/// The tokens that end an answer: the model's own, a turn's, a message's.
inline constexpr std::array<const char*, 3> kGgufEndTokens = {
    "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};

}  // namespace crumb

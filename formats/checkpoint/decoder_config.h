// Reads config.json of a decoder of the Llama kind: Llama 2 and 3, Mistral, Qwen 2, 2.5 and 3, Gemma 2 and 3
// (text), Phi-3, SmolLM 2 and 3, OLMo 2.
//
//   x = embedding[ids] * embedding_scale
//   for each layer:  x = x + after(attention(before(x)));  x = x + after(mlp(before(x)))
//   logits = cap(head(norm(x)))
//
// where `before` and `after` are RMS norms that a family may lack, mlp(x) = down(act(gate(x)) * up(x)), and
// attention is that of grouped heads (query head n reads key-value head n / (heads / kv_heads)) with rotary
// positions. Layers may differ in size: intermediate_size, num_attention_heads and num_key_value_heads are
// each a number for all layers, or a list with one for each.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json_file.h"
#include "formats/checkpoint/activation.h"
#include "formats/checkpoint/rotary_config.h"

namespace crumb {

/// Whether queries and keys are normalized before the rotary embedding: head by head, or all heads of a token
/// together.
enum class QueryNorm { kNone, kByHead, kAllHeads };

struct DecoderLayer {
  std::size_t inner_size = 0;  ///< of its feed-forward network
  std::size_t heads = 0, kv_heads = 0;
  std::size_t window = 0;               ///< keys that a query sees, its own among them; 0: all before it.
                                        ///< Of an encoder (use_bidirectional_attention): so many on each side
  std::optional<std::size_t> rotation;  ///< an index into DecoderConfig::rotations; none: the layer has no
                                        ///< positions
  /// The earlier layer over whose keys and values this one attends, since it has no projections for them;
  /// none: it has its own. No family that parse() knows has such layers.
  std::optional<std::size_t> kv_source;

  bool operator==(const DecoderLayer&) const = default;
};

struct DecoderConfig {
  std::string model_type;
  std::size_t hidden_size = 0, vocab_size = 0, max_positions = 0;
  std::size_t head_size = 0;
  std::size_t rotary_size = 0;  ///< elements of a head that the rotary embedding rotates
  std::vector<DecoderLayer> layers;
  std::vector<RotaryEmbedding> rotations;
  Activation activation = Activation::kSilu;
  float norm_epsilon = 1e-6F;
  bool norm_plus_one = false;  ///< a norm multiplies by 1 + its weight
  bool norm_before = true, norm_after = false;
  QueryNorm query_norm = QueryNorm::kNone;
  bool qkv_bias = false, output_bias = false, mlp_bias = false;
  bool fused = false;  ///< qkv_proj and gate_up_proj are stored as one matrix each
  bool tied = false;   ///< the head's matrix is the embedding
  float embedding_scale = 1, attention_scale = 1;
  float attention_cap = 0, logits_cap = 0;  ///< cap * tanh(x / cap); 0: none

  /// Returns the key of config.json by which layers have different sizes; null where all have the same. No
  /// network of these families has such layers in transformers or llama.cpp.
  const char* key_of_unequal_layers() const;

  /// Whether parse() knows the "model_type".
  static bool knows(std::string_view model_type);
  /// "gemma2, gemma3_text, ..."
  static std::string known();

  /// Throws Error, which names file, key, found and expected, for another architecture and for values that
  /// contradict each other.
  static DecoderConfig parse(const JsonFile& file);
};

}  // namespace crumb

// The language models whose GGUF files Crumb reads as the Hugging Face checkpoints that they came from: the
// names of their tensors there, and what llama.cpp's conversion changed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace crumb {

/// The names of one of a layer's tensors.
struct GgufLayerName {
  std::string_view gguf;  ///< "attn_q", behind "blk.N."
  std::string_view hf;    ///< "self_attn.q_proj", behind "model.layers.N."
};

/// The biases that llama.cpp loads.
enum class GgufBiases : std::uint8_t {
  kNone,
  kOfQkv,  ///< of q, k and v
  kAll     ///< of all matrices in layers
};

struct GgufArchitecture {
  std::string_view name;        ///< general.architecture
  std::string_view model_type;  ///< of transformers
  std::string_view class_name;  ///< of transformers
  /// Rows of q and k, weights and biases, are interleaved within each head (TensorPlace::interleaved_rows):
  /// rotary embeddings pair neighbours there, and elements half a head apart in transformers.
  bool interleaves_heads = false;
  bool adds_one_to_norms = false;  ///< norms are stored as one plus the weight
  bool is_gemma = false;           ///< configuration keys and defaults
  GgufBiases biases = GgufBiases::kNone;
};

std::span<const GgufArchitecture> gguf_architectures();

/// Null where Crumb does not know the architecture.
const GgufArchitecture* find_gguf_architecture(std::string_view name);

/// The architecture of a "model_type" of transformers: its own row, or the one of a model whose layers are
/// the same. Null where there is none.
const GgufArchitecture* find_gguf_architecture_of(std::string_view model_type);

/// A tensor's name in transformers ("model.layers.3.mlp.up_proj.weight"), nothing where the architecture has
/// no such tensor.
std::optional<std::string> hugging_face_name(const GgufArchitecture& architecture, std::string_view name);

/// The inverse: "blk.3.ffn_up.weight".
std::optional<std::string> gguf_name(const GgufArchitecture& architecture, std::string_view name);

/// The tensor that holds the scale of an NVFP4 tensor: "blk.3.ffn_up.scale" of "blk.3.ffn_up.weight". Nothing
/// where llama.cpp looks for none: embeddings.
std::optional<std::string> gguf_scale_name(std::string_view name);

/// "attn_q.weight" of "blk.3.attn_q.weight"; the name itself of a tensor outside of layers.
std::string_view name_in_layer(std::string_view name);

/// Whether the rows of a tensor ("blk.3.attn_q.weight") are interleaved within each head.
bool interleaves_rows(const GgufArchitecture& architecture, std::string_view name);

}  // namespace crumb

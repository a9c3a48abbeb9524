// What a tensor of a checkpoint is for, by its name, type and shape: which ones are quantized and which stay.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/dtype.h"

namespace crumb {

enum class TensorRole {
  kWeight,     ///< of a linear or convolution layer
  kEmbedding,  ///< a table with a row per token, position or token type
  kKept,       ///< everything else: stays as it is
};

struct TensorClass {
  TensorRole role = TensorRole::kKept;
  std::string kept_because;      ///< for people: "one-dimensional"; empty unless role is kKept
  std::uint64_t stack_axes = 0;  ///< leading axes that number matrices, as those of experts [E, out, in]
  bool inputs_first = false;     ///< whether the matrices are stored [in, out]
};

/// A floating tensor of rank 2 or more is a weight, unless its name says embedding, norm or bias.
///
/// Names are compared word by word, where dots, underscores, dashes, digits and a change from lower to upper
/// case part words: "LayerNorm", "ln_1", "rms_norm" and "bn1" are norms, "normal_proj" is not. The layer that
/// owns the parameter (the last component but "weight", "bias" and numbers) speaks first, the path above it
/// only where the layer does not say what it is: "embeddings.LayerNorm.weight" is a norm,
/// "patch_embed.proj.weight" is a weight.
///
/// A weight of three axes whose name says "experts" (Hugging Face) or "exps" (GGUF) is a stack of matrices.
/// They are [out, in], but those of gpt-oss and Llama 4 are [in, out]: this is decided by the configuration's
/// hidden_size, which is the inputs of gate_up_proj and the outputs of down_proj, and by its model_type where
/// both axes have that size.
///
/// config is the checkpoint's configuration (config.json), or null. It says that "shared.weight" of an
/// encoder-decoder is the table that both share.
TensorClass classify_tensor(std::string_view name, DType dtype, std::span<const std::uint64_t> shape,
                            const nlohmann::json* config = nullptr);

/// The words of a name, in lower case: "encoder.LayerNorm2.weight" -> encoder layer norm weight.
std::vector<std::string> name_words(std::string_view name);

}  // namespace crumb

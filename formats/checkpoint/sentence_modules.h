// modules.json of a sentence-transformers model: the folder of its transformer, how the states of the tokens
// become one vector, and what follows.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json_file.h"
#include "formats/checkpoint/bert_config.h"

namespace crumb {

enum class PoolingMode {
  kCls,           ///< the first token
  kMax,           ///< the largest value of each element
  kMean,          ///< sum / length
  kMeanSqrtLen,   ///< sum / sqrt(length)
  kWeightedMean,  ///< weights 1, 2, 3, ...
  kLastToken,
};

/// The modes of a module's config.json ("pooling_mode", or the older flags "pooling_mode_mean_tokens" and so
/// on), in the order in which their vectors are joined. Mean where it names none.
std::vector<PoolingMode> parse_pooling(const JsonFile& config);

inline constexpr const char* kSentenceModulesFile = "modules.json";

/// The text of a file of the model ("1_Pooling/config.json"); nothing where there is no such file.
using ModelText = std::function<std::optional<std::string>(const std::string& path)>;

/// A graph's input by which the pooling leaves tokens out: int64 [batch, sequence], 1 for those that it
/// takes. A graph has it where the model does not pool the tokens of prompts.
inline constexpr const char* kPooledInput = "pooling_mask";

struct SentenceModules {
  /// A layer y = activation(x W^T + b) with the tensors FOLDER/linear.weight [out, in] and
  /// FOLDER/linear.bias.
  struct Dense {
    std::string path;  ///< of the folder, with '/' at the end
    size_t in = 0, out = 0;
    bool has_bias = true;
    Activation activation = Activation::kIdentity;
  };
  /// A Dense layer; nothing stands for Normalize, the division by max(L2 norm, 1e-12).
  using Step = std::optional<Dense>;

  std::vector<PoolingMode> pooling;  ///< their vectors are joined
  bool includes_prompt = true;       ///< whether the tokens of a prompt are pooled
  std::vector<Step> steps;           ///< what follows, in this order
  size_t width = 0;                  ///< of the sentence vector

  /// Reads Transformer and Pooling, then any number of Dense (activation Tanh, ReLU, GELU or Identity) and
  /// Normalize; other modules are refused by name, and a Transformer alone. Nothing without modules.json.
  /// Throws Error, which names the file; `model` names the model where a file is missing.
  static std::optional<SentenceModules> read(const ModelText& text, const std::string& model,
                                             size_t hidden_size);

  /// Whether modules.json has a module behind the transformer: without it, as in a CrossEncoder's folder,
  /// what the transformer gives is the model's output. False without modules.json. Throws Error as read()
  /// does.
  static bool pools(const ModelText& text);

  /// Whether the tokens of a prompt are pooled; true without modules.json. Throws Error as read() does.
  static bool pools_prompts(const ModelText& text);

  /// The folder of the transformer's files, with '/' at the end; "" for the top, and without modules.json.
  static std::string transformer_path(const ModelText& text);
};

}  // namespace crumb

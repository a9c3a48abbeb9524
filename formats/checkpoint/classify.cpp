#include "formats/checkpoint/classify.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/text/ascii_case.h"

namespace crumb {
namespace {

constexpr std::array<std::string_view, 12> kNormWords = {
    "norm",   "norms",     "layernorm", "layernorms",    "rmsnorm", "batchnorm",
    "syncbn", "groupnorm", "ln",        "normalization", "bn",      "instancenorm"};
constexpr std::array<std::string_view, 9> kEmbeddingWords = {
    "embed", "embeds", "embedding", "embeddings", "embedder", "emb", "embs", "wte", "wpe"};
constexpr std::array<std::string_view, 9> kLayerWords = {
    "proj", "projection", "linear", "conv", "convolution", "dense", "fc", "mlp", "lm"};
constexpr std::array<std::string_view, 4> kPositionWords = {"position", "positions", "positional", "pos"};
constexpr std::array<std::string_view, 4> kTableWords = {"table", "tables", "encoding", "encodings"};
constexpr std::array<std::string_view, 14> kParameterNames = {
    "weight",    "bias",      "kernel",           "gamma",        "beta",
    "scale",     "weight_g",  "weight_v",         "running_mean", "running_var",
    "original0", "original1", "parametrizations", "default"};

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

template <std::size_t kCount>
bool says(const std::vector<std::string>& words, const std::array<std::string_view, kCount>& vocabulary) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return std::find(vocabulary.begin(), vocabulary.end(), word) != vocabulary.end();
  });
}

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::vector<std::string_view> components(std::string_view name) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t dot = name.find('.');
    parts.push_back(name.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    name.remove_prefix(dot + 1);
  }
}

/// The layer that owns a parameter: the last component that is neither a parameter's name nor a number, else
/// the last.
std::string_view owner(const std::vector<std::string_view>& parts) {
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const bool is_number = std::all_of(part->begin(), part->end(), is_digit);
    const bool is_parameter =
        std::find(kParameterNames.begin(), kParameterNames.end(), *part) != kParameterNames.end();
    if (!is_number && !is_parameter) return *part;
  }
  return parts.back();
}

enum class NameRole { kNothing, kNorm, kEmbedding, kLayer };

NameRole meaning(const std::vector<std::string>& words) {
  if (says(words, kNormWords)) return NameRole::kNorm;
  if (says(words, kEmbeddingWords)) return NameRole::kEmbedding;
  // T5's and Swin's learned tables of relative positions.
  if (has(words, "relative") && has(words, "bias")) return NameRole::kEmbedding;
  if (says(words, kPositionWords) && says(words, kTableWords)) return NameRole::kEmbedding;
  if (has(words, "token") && has(words, "type")) return NameRole::kEmbedding;
  if (says(words, kLayerWords)) return NameRole::kLayer;
  return NameRole::kNothing;
}

bool is_encoder_decoder(const nlohmann::json* config) {
  if (config == nullptr || !config->is_object()) return false;
  const auto found = config->find("is_encoder_decoder");
  if (found != config->end() && found->is_boolean()) return found->get<bool>();
  const auto type = config->find("model_type");
  if (type == config->end() || !type->is_string()) return false;
  constexpr std::array<std::string_view, 7> kTypes = {"t5",   "mt5",   "umt5",   "longt5",
                                                      "bart", "mbart", "pegasus"};
  return std::find(kTypes.begin(), kTypes.end(), type->get_ref<const std::string&>()) != kTypes.end();
}

/// Whether experts lie [experts, in, out].
bool has_inputs_first(std::string_view layer, std::span<const std::uint64_t> shape,
                      const nlohmann::json* config) {
  if (config == nullptr || !config->is_object()) return false;
  const nlohmann::json* of_text = config;  // Llama 4's is one of several
  if (const auto inner = config->find("text_config"); inner != config->end() && inner->is_object())
    of_text = &*inner;
  const auto hidden = of_text->find("hidden_size");
  if (hidden == of_text->end() || !hidden->is_number_unsigned()) return false;
  const auto size = hidden->get<std::uint64_t>();
  if (shape[1] == size && shape[2] == size) {
    const auto type = of_text->find("model_type");
    return type != of_text->end() && type->is_string() && (*type == "gpt_oss" || *type == "llama4_text");
  }
  return layer == "down_proj" ? shape[2] == size : shape[1] == size;
}

TensorClass kept(std::string reason) { return {TensorRole::kKept, std::move(reason)}; }

}  // namespace

std::vector<std::string> name_words(std::string_view name) {
  std::vector<std::string> words;
  std::string word;
  const auto finish = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (!is_lower(c) && !is_upper(c)) {
      finish();
      continue;
    }
    if (is_upper(c)) {
      // "LayerNorm": a capital after a small letter; "RMSNorm": the last of several capitals before a small
      // one.
      const bool after_small = i > 0 && is_lower(name[i - 1]);
      const bool before_small = i + 1 < name.size() && is_lower(name[i + 1]);
      if (after_small || before_small) finish();
    }
    word += to_lower(c);
  }
  finish();
  return words;
}

TensorClass classify_tensor(std::string_view name, DType dtype, std::span<const std::uint64_t> shape,
                            const nlohmann::json* config) {
  if (!is_floating(dtype)) return kept("not floating point (" + std::string(dtype_name(dtype)) + ")");
  if (dtype == DType::kF8E8M0) return kept("scales (F8_E8M0)");
  if (shape.empty()) return kept("a scalar");

  const std::vector<std::string_view> parts = components(name);
  NameRole said = meaning(name_words(owner(parts)));
  if (said == NameRole::kNothing) {
    const NameRole path = meaning(name_words(name));
    if (path != NameRole::kLayer) said = path;
  }
  if (said == NameRole::kNorm) return kept("normalisation");
  const bool is_bias =
      parts.back() == "bias" || parts.back().starts_with("bias_") || parts.back().ends_with("_bias");
  if (is_bias && said != NameRole::kEmbedding) return kept("a bias");
  if (shape.size() == 1) return kept("one-dimensional");
  if (said == NameRole::kEmbedding) return {TensorRole::kEmbedding, {}};
  if (is_encoder_decoder(config) && owner(parts) == "shared") return {TensorRole::kEmbedding, {}};
  const std::vector<std::string> words = name_words(name);
  const bool is_stack = shape.size() == 3 && (has(words, "experts") || has(words, "exps"));
  if (!is_stack) return {TensorRole::kWeight, {}};
  return {TensorRole::kWeight, {}, 1, has_inputs_first(owner(parts), shape, config)};
}

}  // namespace crumb

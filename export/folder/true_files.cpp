#include "export/folder/true_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json/bounded_json.h"

namespace crumb::exporting {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kConfig = "config.json";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr std::size_t kMaxFile = std::size_t{64} << 20;
constexpr unsigned kMaxDepth = 64;

/// Nothing where there is no such file, or it is no JSON object.
std::optional<Json> object_in(const FolderContent& content, const char* path) {
  if (std::ranges::find(content.files(), path) == content.files().end()) return std::nullopt;
  std::string text;
  content.read_file(path, [&](std::span<const std::byte> slice) {
    text.append(reinterpret_cast<const char*>(slice.data()), slice.size());
  });
  if (!check_json_tokens(std::as_bytes(std::span(text)), kMaxFile, kMaxDepth).ok()) return std::nullopt;
  Json json = Json::parse(text, nullptr, false);
  return json.is_object() ? std::optional(std::move(json)) : std::nullopt;
}

/// The narrowest type that holds all of the tensors' numbers, as PyTorch calls it; nothing where it has none
/// of such types.
std::optional<std::string> type_of(const std::vector<TensorDescription>& tensors) {
  bool f16 = false, bf16 = false, f32 = false, f64 = false;
  for (const TensorDescription& tensor : tensors) {
    f16 = f16 || tensor.dtype == DType::kF16;
    bf16 = bf16 || tensor.dtype == DType::kBF16;
    f32 = f32 || tensor.dtype == DType::kF32;
    f64 = f64 || tensor.dtype == DType::kF64;
  }
  if (f64) return "float64";
  if (f32 || (f16 && bf16)) return "float32";
  if (bf16) return "bfloat16";
  if (f16) return "float16";
  return std::nullopt;
}

/// Sets the type wherever a configuration says one, in those of its parts ("text_config"), too.
bool set_type(Json& config, const std::string& type) {
  bool changed = false;
  for (auto& [key, value] : config.items()) {
    if (value.is_object()) {
      changed = set_type(value, type) || changed;
    } else if ((key == "dtype" || key == "torch_dtype") && value != type) {
      value = type;
      changed = true;
    }
  }
  return changed;
}

bool takes_token_types(const Json& config) {
  return config.contains("type_vocab_size") || config.value("model_type", Json()) == "xlnet";
}

}  // namespace

TrueFiles::TrueFiles(const FolderContent& content) : content_(content) {
  std::optional<Json> config = object_in(content, kConfig);
  if (!config) return;
  const std::optional<std::string> type = type_of(content.tensors());
  if (type && !config->contains("quantization_config")) {
    const bool said = config->contains("dtype") || config->contains("torch_dtype");
    bool changed = set_type(*config, *type);
    // Where nothing is said, version 4 takes a model for float32, and version 5 for what its first tensor is.
    const bool several = std::ranges::any_of(content.tensors(), [](const TensorDescription& tensor) {
      return tensor.dtype == DType::kF16 || tensor.dtype == DType::kBF16;
    });
    if (!said && (several || *type != "float32")) {
      (*config)["dtype"] = *type;
      changed = true;
    }
    if (changed) changed_[kConfig] = config->dump(2) + "\n";
  }
  std::optional<Json> tokenizer = object_in(content, kTokenizerConfig);
  if (!tokenizer || tokenizer->contains("model_input_names") || takes_token_types(*config)) return;
  (*tokenizer)["model_input_names"] = {"input_ids", "attention_mask"};
  changed_[kTokenizerConfig] = tokenizer->dump(2) + "\n";
}

void TrueFiles::read_file(const std::string& path, const Sink& sink) const {
  const auto found = changed_.find(path);
  if (found == changed_.end()) return content_.read_file(path, sink);
  sink(std::as_bytes(std::span(found->second)));
}

}  // namespace crumb::exporting

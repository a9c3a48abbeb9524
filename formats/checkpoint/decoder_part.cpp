#include "formats/checkpoint/decoder_part.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "formats/checkpoint/decoder_config.h"
#include "formats/checkpoint/decoder_names.h"
#include "formats/checkpoint/text_config.h"

namespace crumb {
namespace {

constexpr std::string_view kDecodersEmbedding = "model.embed_tokens.weight", kDecodersHead = "lm_head.weight";

/// By its name in the decoder.
using NamedTensors = std::map<std::string, const TensorEntry*, std::less<>>;

bool is_decoder(const nlohmann::json& config) {
  const auto type = config.find("model_type");
  return type != config.end() && type->is_string() &&
         DecoderConfig::knows(type->get_ref<const std::string&>());
}

}  // namespace

Result<std::optional<DecoderPart>> find_decoder(const nlohmann::json& config,
                                                const std::vector<TensorEntry>& tensors) {
  NamedTensors named;
  std::vector<const TensorEntry*> others;
  std::optional<Failure> twice;
  for (const TensorEntry& tensor : tensors) {
    const std::optional<std::string> name = decoder_name(tensor.name);
    if (!name) {
      others.push_back(&tensor);
      continue;
    }
    const auto [at, is_new] = named.emplace(*name, &tensor);
    if (!is_new)
      twice = Failure{"the tensors " + quote_text(at->second->name) + " and " + quote_text(tensor.name) +
                      " are both the decoder's " + quote_text(*name)};
  }
  if (!named.contains(kDecodersEmbedding)) return std::optional<DecoderPart>();
  DecoderPart part;
  part.config = text_config_of(config, named.contains(kDecodersHead));
  if (!part.config && !is_decoder(config)) return std::optional<DecoderPart>();
  if (twice) return *twice;
  for (const auto& [name, tensor] : named) {
    part.tensors.push_back(*tensor);
    part.tensors.back().name = name;
  }
  if (!part.config) {
    for (const TensorEntry* tensor : others) part.tensors.push_back(*tensor);
    return std::optional(std::move(part));
  }
  std::map<std::string, std::size_t> beside;
  for (const TensorEntry* tensor : others) ++beside[part_beside_decoder(tensor->name)];
  for (const auto& [name, count] : beside)
    part.skipped.push_back(
        {name, count_text(count, "tensor") + " beside the language model, which alone is read"});
  return std::optional(std::move(part));
}

bool is_of_images(const std::string& path) {
  constexpr std::array<std::string_view, 4> kFiles = {"image_processor_config.json",
                                                      "preprocessor_config.json", "processor_config.json",
                                                      "video_preprocessor_config.json"};
  return std::ranges::find(kFiles, path) != kFiles.end();
}

}  // namespace crumb

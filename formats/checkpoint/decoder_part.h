// The decoder in a checkpoint that holds it under other names, or beside other networks.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/checkpoint/checkpoint.h"

namespace crumb {

struct DecoderPart {
  std::vector<TensorEntry> tensors;  ///< in any order
  std::vector<SkippedEntry> skipped;
  std::optional<nlohmann::json> config;  ///< where it is another than the checkpoint's
};

/// Finds the decoder that `config` (config.json) describes, one that DecoderConfig knows: its tensors get the
/// names of transformers' ...ForCausalLM (formats/checkpoint/decoder_names.h), other tensors keep theirs. Of
/// a model that reads images, too (formats/checkpoint/text_config.h), those of the other networks are left
/// out, and listed by the network that they belong to. Nothing where there is no such decoder. A Failure
/// where two tensors would get one name.
Result<std::optional<DecoderPart>> find_decoder(const nlohmann::json& config,
                                                const std::vector<TensorEntry>& tensors);

/// Whether a file beside the tensors is about images and videos alone.
bool is_of_images(const std::string& path);

}  // namespace crumb

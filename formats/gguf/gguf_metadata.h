// GGUF's metadata made from the files of a Hugging Face folder: the inverse of hf_files.h, by the same
// tables.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/gguf/architecture.h"
#include "formats/gguf/rope_scaling.h"
#include "formats/gguf/writer.h"

namespace crumb {

/// "general.architecture" and the network's numbers. `config` is a config.json with all keys of config_keys.h
/// that the architecture takes, "rotary_size" (elements of a head with a rotary embedding) and "vocab_size";
/// "rope_scaling" is null or an object with "rope_type" (or "type"), and what is usual where nothing is said
/// stands there, too: "factor", "attention_factor" and "original_max_position_embeddings". Types are default,
/// linear, llama3, yarn as llama.cpp has it, and of phi3 longrope; of others a Failure says that GGUF, as
/// Crumb writes it, has none.
Result<std::vector<GgufPair>> config_metadata(const GgufArchitecture& architecture,
                                              const nlohmann::json& config);

/// A tensor of rope_scaling.h, with its name.
struct RopeTensor {
  std::string name;
  std::vector<float> factors;
};

/// The tensors that store a "rope_scaling" of llama3 or longrope, for the same `config`. A Failure where one
/// of its parameters is missing.
Result<std::vector<RopeTensor>> rope_tensors(const GgufArchitecture& architecture,
                                             const nlohmann::json& config);

/// The text of a folder's tokenizer files; empty where a file is missing.
struct TokenizerTexts {
  std::string_view tokenizer;         ///< tokenizer.json
  std::string_view tokenizer_config;  ///< tokenizer_config.json
  std::string_view generation_config;
  std::string_view chat_template;  ///< chat_template.jinja; it takes precedence over the configuration's
};

/// "tokenizer.*": tokens, merges or scores, special and end tokens, chat template. `config` is config.json,
/// `rows` what the embedding has; where the tokenizer has fewer tokens, unused ones ("[PAD7]") follow.
/// Without tokenizer.json the kind is "none". What llama.cpp will do otherwise (it strips no spaces around
/// special tokens) is added to `notes`. A Failure says what of the tokenizer GGUF cannot hold.
Result<std::vector<GgufPair>> tokenizer_metadata(const TokenizerTexts& texts, const nlohmann::json& config,
                                                 std::uint64_t rows, std::vector<std::string>& notes);

}  // namespace crumb

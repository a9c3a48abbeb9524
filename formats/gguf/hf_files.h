// The files of a Hugging Face folder, made from GGUF's metadata, inside formats/gguf.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/gguf/architecture.h"
#include "formats/gguf/fields.h"
#include "formats/gguf/rope_scaling.h"

namespace crumb {

/// What the configuration depends on in the tensors.
struct GgufTensorFacts {
  std::uint64_t vocabulary = 0;  ///< rows of token_embd
  bool has_output = false;       ///< whether the logits have a matrix of their own
  bool has_attention_bias = false;
  bool has_mlp_bias = false;
  std::optional<Llama3Scaling> rope;
  std::vector<float> short_factors,
      long_factors;  ///< of frequencies, for short texts and long ones; both or none
};

/// The size of an attention head.
std::uint64_t gguf_head_size(GgufFields& fields, const std::string& architecture);

/// Elements of a head that have a rotary embedding.
std::uint64_t gguf_rotary_size(GgufFields& fields, const std::string& architecture);

/// config.json. What is wrong is left in fields.status().
std::string make_config(GgufFields& fields, const GgufArchitecture& architecture,
                        const GgufTensorFacts& facts);

/// generation_config.json.
std::string make_generation_config(GgufFields& fields);

/// tokenizer.json. A Failure says why there is none.
Result<std::string> make_tokenizer(const GgufHeader& header);

/// tokenizer_config.json.
Result<std::string> make_tokenizer_config(const GgufHeader& header);

}  // namespace crumb

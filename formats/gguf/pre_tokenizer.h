// How byte-level vocabularies split text into words: GGUF names the way, tokenizer.json describes it. One
// table for both directions.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

namespace crumb {

struct PreTokenizer {
  std::string_view name;   ///< tokenizer.ggml.pre
  std::string_view split;  ///< a regular expression; empty: GPT-2's own
  bool digits = false;     ///< every digit alone, before GPT-2's
  bool nfc = false;
  bool ignore_merges = false;  ///< a word that is a token is that token
  bool adds_bos = false;       ///< unless add_bos_token says otherwise
};

/// The ways that Crumb knows. Of several names for one way the first one is written.
std::span<const PreTokenizer> pre_tokenizers();

/// Null where none has the name.
const PreTokenizer* find_pre_tokenizer(std::string_view name);

/// "pre_tokenizer" and "normalizer" of tokenizer.json.
nlohmann::ordered_json words_of(const PreTokenizer& pre);
nlohmann::ordered_json normalizer_of(const PreTokenizer& pre);

/// Parts of tokenizer.json.
nlohmann::ordered_json byte_level_step(bool regex);
nlohmann::ordered_json sequence_of(const char* member, nlohmann::ordered_json parts);

}  // namespace crumb

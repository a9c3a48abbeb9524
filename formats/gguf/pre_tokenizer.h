// How byte-level vocabularies split text into words: GGUF names the way, tokenizer.json describes it. One
// table for both directions.
//
// The names are those that llama.cpp knows for byte pairs. Where a family publishes its tokenizer.json, the
// steps are that file's, whose ids the model was trained on; llama.cpp's own expressions come close to them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

namespace crumb {

/// A step of "pre_tokenizer".
struct WordStep {
  enum class Kind : std::uint8_t {
    kSplit,            ///< each match of `regex` is a word, and what lies between them
    kEachDigit,        ///< each numeric character is a word
    kDigitRuns,        ///< each run of them is
    kEachPunctuation,  ///< each mark of punctuation is a word
    kPunctuationRuns,  ///< each run of them is
    kGpt2,             ///< GPT-2's words, as bytes
    kBytes,            ///< bytes, written as characters
  };
  Kind kind = Kind::kBytes;
  std::string_view regex = {};
};

struct PreTokenizer {
  std::string_view name;  ///< tokenizer.ggml.pre
  std::span<const WordStep> steps;
  bool nfc = false;
  bool ignore_merges = false;  ///< a word that is a token is that token
  bool adds_bos = false;       ///< unless add_bos_token says otherwise
};

/// The ways that Crumb knows. Of several names for one way the first one is written.
std::span<const PreTokenizer> pre_tokenizers();

/// Null where none has the name.
const PreTokenizer* find_pre_tokenizer(std::string_view name);

/// By "pre_tokenizer" and "normalizer" of a tokenizer.json, and its model's "ignore_merges". Null where no
/// name says that.
const PreTokenizer* match_pre_tokenizer(const nlohmann::json& words, const nlohmann::json& normalizer,
                                        bool ignore_merges);

/// The first one that splits so, whatever stands around that. Null where none does.
const PreTokenizer* match_words(const nlohmann::json& words);

/// Why a name that llama.cpp knows is not among them; empty for any other name.
std::string_view why_not_read(std::string_view name);

/// "pre_tokenizer" and "normalizer" of tokenizer.json.
nlohmann::ordered_json words_of(const PreTokenizer& pre);
nlohmann::ordered_json normalizer_of(const PreTokenizer& pre);

/// Parts of tokenizer.json.
nlohmann::ordered_json byte_level_step(bool regex);
nlohmann::ordered_json sequence_of(const char* member, nlohmann::ordered_json parts);

}  // namespace crumb

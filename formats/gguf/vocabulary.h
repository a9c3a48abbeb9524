// The tokens of a GGUF file's metadata, and the merges of SentencePiece's BPE, which follow from scores:
// every way to cut a normal token into two normal tokens, the highest score first, of equal ones the longer
// left part, then the longer right part.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace crumb {

/// tokenizer.ggml.token_type
enum class TokenType : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
  kOther = 7
};

struct Vocabulary {
  std::vector<std::string_view> tokens;
  std::vector<TokenType> types;
  std::vector<float> scores;
  std::uint64_t bytes = 0;  ///< of all tokens
};

using TokenIds = std::unordered_map<std::string_view, std::uint32_t>;
using TokenPairs = std::vector<std::pair<std::string_view, std::string_view>>;

/// Pairs of token texts in the order of merging. Precondition: as many scores and types as tokens, all of
/// which `ids` has.
TokenPairs merges_by_score(const Vocabulary& vocabulary, const TokenIds& ids);

}  // namespace crumb

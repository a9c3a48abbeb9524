// The tokens that other files add to those of a tokenizer.json, or whose description they replace, as
// `transformers` finds them:
//
//   tokenizer_config.json    added_tokens_decoder: {id: {content, lstrip, ...}}
//   added_tokens.json        {content: id}, where there is no added_tokens_decoder
//   special tokens           bos_token, eos_token, unk_token, sep_token, pad_token, cls_token, mask_token;
//                            other strings whose key ends with _token; extra_special_tokens (a list, or an
//                            object of names), and additional_special_tokens: of tokenizer_config.json, over
//                            which special_tokens_map.json takes precedence
//                            where there is no added_tokens_decoder
//
// Where versions 4.57 and 5 differ, this is 5 (docs/text.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "text/pipeline/json_place.h"
#include "text/tokenizer.h"

namespace crumb::text {

/// A token as a file describes it.
struct DeclaredToken {
  std::string content;
  bool single_word = false, lstrip = false, rstrip = false, normalized = true, special = false;

  bool operator==(const DeclaredToken&) const = default;
};

/// From an object {"content": ..., "lstrip": ...}; missing members are false, `normalized` is the opposite of
/// `special`. Throws Error where a value has another type.
DeclaredToken declared_token(const JsonPlace& object);

/// A token of tokenizer.json's added_tokens.
struct OwnToken {
  DeclaredToken token;
  TokenId id = 0;
};

/// Special tokens by their keys ("bos_token"), where no file has the key.
using UsualTokens = std::map<std::string, std::string>;

/// The tokens in the order in which they are added. One whose content is known already replaces that token's
/// description; another one takes the next free id, whatever id the files give it. `folder` ends with '/' or
/// is empty. Throws Error, which names the file and the key.
std::vector<DeclaredToken> tokens_beside(const std::vector<OwnToken>& own, const ReadFile& read,
                                         const std::string& folder, const UsualTokens& usual = {});

/// The next free id of a vocabulary of `size` tokens that has the largest added id, as `tokenizers` counts.
constexpr TokenId next_token_id(std::size_t size, TokenId largest_added) {
  const auto end = static_cast<TokenId>(size);
  return largest_added >= end ? largest_added + 1 : end;
}

}  // namespace crumb::text

#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "text/tokenizer_files.h"
#include "text/unicode.h"

namespace crumb::text {

Tokenizer Tokenizer::load(const ReadFile& read, const std::string& path) {
  TokenizerSettings settings = read_tokenizer_files(read, path);
  const TokenId largest = settings.vocabulary.largest_id();
  Tokenizer tokenizer(WordPiece(std::move(settings.vocabulary), std::move(settings.wordpiece)));
  tokenizer.normalizer_ = settings.normalizer;
  tokenizer.cls_ = settings.cls;
  tokenizer.sep_ = settings.sep;
  tokenizer.max_length_ = settings.max_length;
  tokenizer.largest_id_ = largest;
  std::vector<AddedToken> normalized, raw;
  for (AddedToken& token : settings.added_tokens) {
    tokenizer.largest_id_ = std::max(tokenizer.largest_id_, token.id);
    if (token.normalized) {
      token.content = normalize(token.content, tokenizer.normalizer_);
      normalized.push_back(std::move(token));
    } else {
      raw.push_back(std::move(token));
    }
  }
  tokenizer.normalized_tokens_ = AddedTokens(std::move(normalized));
  tokenizer.raw_tokens_ = AddedTokens(std::move(raw));
  return tokenizer;
}

void Tokenizer::limit_length(size_t length) { max_length_ = std::min(max_length_.value_or(length), length); }

std::vector<TokenId> Tokenizer::encode(std::string_view text) const {
  std::vector<TokenId> ids = {cls_};
  const size_t room = max_length_ ? *max_length_ - 1 : SIZE_MAX;  // what stands before [SEP]
  const auto add_words = [&](std::u32string_view part) {
    for (const auto word : split_words(part)) {
      if (ids.size() >= room) return;
      wordpiece_.encode(word, ids);
    }
  };
  const std::u32string characters = unicode::decode(text);
  for (const TextPiece& piece : split_added_tokens(characters, raw_tokens_)) {
    if (ids.size() >= room) break;
    if (piece.token) {
      ids.push_back(*piece.token);
      continue;
    }
    const std::u32string normal = normalize(piece.text, normalizer_);
    for (const TextPiece& part : split_added_tokens(normal, normalized_tokens_)) {
      if (part.token) {
        ids.push_back(*part.token);
      } else {
        add_words(part.text);
      }
    }
  }
  if (ids.size() > room) ids.resize(room);
  ids.push_back(sep_);
  return ids;
}

}  // namespace crumb::text

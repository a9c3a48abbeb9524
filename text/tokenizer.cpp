#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
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
  tokenizer.pairs_ = std::move(settings.pairs.frame);
  tokenizer.why_no_pairs_ = std::move(settings.pairs.why);
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
  encode_own(text, room, ids);
  if (ids.size() > room) ids.resize(room);
  ids.push_back(sep_);
  return ids;
}

PairTokens Tokenizer::encode_pair(std::string_view first, std::string_view second) const {
  if (!pairs_) throw Error("the tokenizer takes no pairs of texts: " + why_no_pairs_);
  const size_t most = max_length_.value_or(SIZE_MAX);
  if (most <= pairs_->tokens_around())
    throw Error("a line may have " + std::to_string(most) + " tokens, and " +
                std::to_string(pairs_->tokens_around()) + " stand around every pair: none would be left");
  std::vector<TokenId> own_of_first, own_of_second;
  encode_own(first, SIZE_MAX, own_of_first);
  encode_own(second, SIZE_MAX, own_of_second);
  return pairs_->join(std::move(own_of_first), std::move(own_of_second), most);
}

void Tokenizer::encode_own(std::string_view text, size_t room, std::vector<TokenId>& ids) const {
  const auto add_words = [&](std::u32string_view part) {
    for (const auto word : split_words(part)) {
      if (ids.size() >= room) return;
      wordpiece_.encode(word, ids);
    }
  };
  const std::u32string characters = unicode::decode(text);
  for (const TextPiece& piece : split_added_tokens(characters, raw_tokens_)) {
    if (ids.size() >= room) return;
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
}

}  // namespace crumb::text

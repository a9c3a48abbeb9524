#include "text/added_tokens.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "text/unicode.h"

namespace crumb::text {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : sorted_(std::move(tokens)) {
  std::ranges::stable_sort(sorted_, {}, &AddedToken::content);
}

const AddedToken* AddedTokens::longest_at(std::u32string_view text) const {
  const AddedToken* longest = nullptr;
  auto begin = sorted_.begin(), end = sorted_.end();
  for (size_t i = 0; i < text.size(); ++i) {
    // Adds the tokens that begin with text[0, i), in the order of what follows.
    const auto character = [i](const AddedToken& token) {
      return i < token.content.size() ? std::int64_t{token.content[i]} : -1;
    };
    const std::int64_t next = text[i];
    begin = std::ranges::lower_bound(begin, end, next, {}, character);
    end = std::ranges::upper_bound(begin, end, next, {}, character);
    if (begin == end) break;
    if (begin->content.size() == i + 1) longest = &*begin;
  }
  return longest;
}

std::vector<TextPiece> split_added_tokens(std::u32string_view text, const AddedTokens& tokens) {
  std::vector<TextPiece> pieces;
  size_t covered = 0;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* token = tokens.longest_at(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t start = at;
    size_t stop = at + token->content.size();
    at = stop;
    if (token->single_word && ((start > 0 && unicode::is_word(text[start - 1])) ||
                               (stop < text.size() && unicode::is_word(text[stop])))) {
      continue;
    }
    // The search continues behind the token, not behind the space that it took: the next token may begin in
    // `covered`.
    while (token->lstrip && start > covered && unicode::is_whitespace(text[start - 1])) --start;
    if (token->rstrip) stop = std::max(stop, covered);  // a token before it took this white space
    while (token->rstrip && stop < text.size() && unicode::is_whitespace(text[stop])) ++stop;
    start = std::max(start, covered);
    if (start > covered) pieces.push_back({text.substr(covered, start - covered), std::nullopt});
    pieces.push_back({{}, token->id});
    covered = std::max(stop, covered);
  }
  if (covered < text.size()) pieces.push_back({text.substr(covered), std::nullopt});
  return pieces;
}

}  // namespace crumb::text

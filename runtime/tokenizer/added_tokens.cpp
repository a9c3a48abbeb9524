#include "runtime/tokenizer/added_tokens.h"

#include <algorithm>

#include "runtime/tokenizer/unicode.h"

namespace crumb::runtime {
namespace {

const AddedToken* longest_at(std::u32string_view text, const std::vector<AddedToken>& tokens) {
  const AddedToken* best = nullptr;
  for (const AddedToken& token : tokens) {
    if (!token.content.empty() && text.starts_with(token.content) &&
        (best == nullptr || token.content.size() > best->content.size())) {
      best = &token;
    }
  }
  return best;
}

}  // namespace

std::vector<TextPiece> split_added_tokens(std::u32string_view text, const std::vector<AddedToken>& tokens) {
  std::u32string first_chars;
  for (const AddedToken& token : tokens) first_chars += token.content.substr(0, 1);

  std::vector<TextPiece> pieces;
  size_t covered = 0;
  for (size_t at = text.find_first_of(first_chars); at < text.size();
       at = text.find_first_of(first_chars, at)) {
    const AddedToken* token = longest_at(text.substr(at), tokens);
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
    // The search goes on behind the token, not behind the space it took: so the next one may begin in
    // `covered`.
    while (token->lstrip && start > covered && unicode::is_whitespace(text[start - 1])) --start;
    while (token->rstrip && stop < text.size() && unicode::is_whitespace(text[stop])) ++stop;
    start = std::max(start, covered);
    if (start > covered) pieces.push_back({text.substr(covered, start - covered), std::nullopt});
    pieces.push_back({{}, token->id});
    covered = std::max(stop, covered);
  }
  if (covered < text.size()) pieces.push_back({text.substr(covered), std::nullopt});
  return pieces;
}

}  // namespace crumb::runtime

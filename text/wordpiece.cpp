#include "text/wordpiece.h"

#include <algorithm>

#include "base/files/text.h"
#include "text/unicode.h"

namespace crumb::text {

Result<Vocabulary> Vocabulary::parse_text(std::string_view text) {
  Vocabulary vocabulary;
  TokenId line_index = 0;
  for (size_t at = 0; at < text.size(); ++line_index) {
    const size_t end = std::min(text.find_first_of("\r\n", at), text.size());
    const std::string_view token = text.substr(at, end - at);
    if (!is_utf8(token)) {
      return Failure{"line " + std::to_string(line_index + 1) + " is not UTF-8"};
    }
    vocabulary.add(std::string(token), line_index);
    at = end + (text.substr(end, 2) == "\r\n" ? 2 : 1);
  }
  if (vocabulary.size() == 0) return Failure{"there is no token in it"};
  return vocabulary;
}

std::optional<TokenId> Vocabulary::find(std::string_view token) const {
  const auto entry = ids_.find(token);
  return entry == ids_.end() ? std::nullopt : std::optional(entry->second);
}

TokenId Vocabulary::largest_id() const {
  TokenId largest = 0;
  for (const auto& [token, id] : ids_) largest = std::max(largest, id);
  return largest;
}

WordPiece::WordPiece(Vocabulary vocabulary, Options options)
    : vocabulary_(std::move(vocabulary)),
      options_(std::move(options)),
      unknown_(vocabulary_.find(options_.unknown_token).value()) {}

void WordPiece::encode(std::u32string_view word, std::vector<TokenId>& ids) const {
  if (word.size() > options_.max_chars_per_word) {
    ids.push_back(unknown_);
    return;
  }
  const size_t before = ids.size();
  for (size_t start = 0; start < word.size();) {
    // The piece shrinks from its end, one character (its bytes) at a time.
    std::string piece = start == 0 ? std::string() : options_.continuing_prefix;
    std::vector<size_t> ends;
    for (const char32_t c : word.substr(start)) {
      unicode::append_utf8(c, piece);
      if (piece.size() > vocabulary_.longest()) break;  // bounds the time for words of any length
      ends.push_back(piece.size());
    }
    std::optional<TokenId> id;
    size_t length = ends.size();
    for (; length > 0; --length) {
      id = vocabulary_.find(std::string_view(piece).substr(0, ends[length - 1]));
      if (id) break;
    }
    if (!id) {
      ids.resize(before);
      ids.push_back(unknown_);
      return;
    }
    ids.push_back(*id);
    start += length;
  }
}

}  // namespace crumb::text

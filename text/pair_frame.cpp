#include "text/pair_frame.h"

#include <algorithm>

namespace crumb::text {
namespace {

/// Cuts two texts to `most` tokens together. Where both are longer than half of that, each keeps half, and
/// the longer one the token that is left over.
void cut_longest_first(std::vector<TokenId>& first, std::vector<TokenId>& second, std::size_t most) {
  if (first.size() + second.size() <= most) return;
  std::vector<TokenId>& shorter = first.size() > second.size() ? second : first;
  std::vector<TokenId>& longer = first.size() > second.size() ? first : second;
  if (shorter.size() > most / 2) shorter.resize(most / 2);
  longer.resize(std::min(longer.size(), most - shorter.size()));
}

}  // namespace

PairFrame PairFrame::around_each(const std::vector<TokenId>& before, const std::vector<TokenId>& after) {
  std::vector<Part> parts;
  for (const Part::Of text : {Part::Of::kFirst, Part::Of::kSecond}) {
    const std::int64_t type = text == Part::Of::kFirst ? 0 : 1;
    for (const TokenId id : before) parts.push_back({.id = id, .type = type});
    parts.push_back({.of = text, .type = type});
    for (const TokenId id : after) parts.push_back({.id = id, .type = type});
  }
  return PairFrame(std::move(parts));
}

PairFrame PairFrame::of_bert(TokenId cls, TokenId sep, std::size_t separators, std::int64_t second_type) {
  std::vector<Part> parts = {{.id = cls}, {.of = Part::Of::kFirst}};
  for (std::size_t i = 0; i < separators; ++i) parts.push_back({.id = sep});
  parts.push_back({.of = Part::Of::kSecond, .type = second_type});
  parts.push_back({.id = sep, .type = second_type});
  return PairFrame(std::move(parts));
}

PairTokens PairFrame::join(std::vector<TokenId> first, std::vector<TokenId> second, std::size_t most) const {
  cut_longest_first(first, second, most - tokens_around());
  PairTokens row;
  for (const Part& part : parts_) {
    if (part.of == Part::Of::kToken) {
      row.ids.push_back(part.id);
    } else {
      const std::vector<TokenId>& text = part.of == Part::Of::kFirst ? first : second;
      row.ids.insert(row.ids.end(), text.begin(), text.end());
    }
    row.types.resize(row.ids.size(), part.type);
  }
  return row;
}

}  // namespace crumb::text

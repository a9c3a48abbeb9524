#include "formats/gguf/vocabulary.h"

#include <algorithm>
#include <tuple>

#include "base/files/text.h"

namespace crumb {
namespace {

std::uint64_t characters_of(std::string_view text) {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }));
}

}  // namespace

TokenPairs merges_by_score(const Vocabulary& vocabulary, const TokenIds& ids) {
  struct Merge {
    float score;
    std::uint64_t left_length, right_length;
    std::uint32_t left, right;
  };
  std::vector<Merge> merges;
  const auto normal = [&](std::string_view text) {
    const auto found = ids.find(text);
    return found != ids.end() && vocabulary.types[found->second] == TokenType::kNormal ? found : ids.end();
  };
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string_view token = vocabulary.tokens[i];
    if (vocabulary.types[i] != TokenType::kNormal) continue;
    const std::size_t first = merges.size();
    for (std::size_t cut = utf8_character(token); cut > 0 && cut < token.size();
         cut += utf8_character(token.substr(cut))) {
      const auto left = normal(token.substr(0, cut)), right = normal(token.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      merges.push_back({vocabulary.scores[i], characters_of(left->first), characters_of(right->first),
                        left->second, right->second});
    }
    std::sort(
        merges.begin() + static_cast<std::ptrdiff_t>(first), merges.end(),
        [](const Merge& a, const Merge& b) { return std::tie(a.left, a.right) < std::tie(b.left, b.right); });
  }
  std::ranges::stable_sort(merges, [](const Merge& a, const Merge& b) {
    return std::tie(a.score, a.left_length, a.right_length) >
           std::tie(b.score, b.left_length, b.right_length);
  });
  TokenPairs pairs;
  pairs.reserve(merges.size());
  for (const Merge& merge : merges)
    pairs.emplace_back(vocabulary.tokens[merge.left], vocabulary.tokens[merge.right]);
  return pairs;
}

}  // namespace crumb

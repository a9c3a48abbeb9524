// Added tokens: what is found is what trying every token at every place finds, in a time that does not grow with the
// number of tokens times that of places or of tokens.
#include "text/added_tokens.h"

#include <doctest/doctest.h>

#include <random>

#include "text/tokenizer.h"
#include "text/unicode.h"

namespace crumb::text {
namespace {

/// As the rules say, with no thought of time. A token is written as its id, text as itself.
std::u32string plain_split(std::u32string_view text, const std::vector<AddedToken>& tokens) {
  std::u32string out;
  size_t covered = 0, at = 0;
  while (at < text.size()) {
    const AddedToken* best = nullptr;
    for (const AddedToken& token : tokens) {
      if (!token.content.empty() && text.substr(at).starts_with(token.content) &&
          (!best || token.content.size() > best->content.size()))
        best = &token;
    }
    if (!best) {
      ++at;
      continue;
    }
    size_t start = at, stop = at + best->content.size();
    at = stop;
    const bool touches = (start > 0 && unicode::is_word(text[start - 1])) ||
                         (stop < text.size() && unicode::is_word(text[stop]));
    if (best->single_word && touches) continue;
    while (best->lstrip && start > covered && unicode::is_whitespace(text[start - 1])) --start;
    while (best->rstrip && stop < text.size() && unicode::is_whitespace(text[stop])) ++stop;
    if (start > covered) out += text.substr(covered, start - covered);
    out += static_cast<char32_t>(0x100000 + best->id);
    covered = std::max(covered, stop);
  }
  return out += text.substr(std::min(covered, text.size()));
}

TEST_CASE("added tokens are those that trying every one at every place finds") {
  std::mt19937 random(1);
  const auto text = [&](size_t most) {
    std::u32string made;
    for (size_t length = random() % (most + 1); made.size() < length;)
      made += U"ab \u00e9\U0001F600"[random() % 5];
    return made;
  };
  size_t found = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<AddedToken> tokens(random() % 8);
    for (AddedToken& token : tokens) {
      token = {.content = text(4),
               .id = static_cast<TokenId>(&token - tokens.data()),
               .single_word = random() % 4 == 0,
               .lstrip = random() % 4 == 0,
               .rstrip = random() % 4 == 0};
    }
    const std::u32string input = text(40);
    std::u32string pieces;
    for (const TextPiece& piece : split_added_tokens(input, AddedTokens(tokens))) {
      found += piece.token.has_value();
      pieces += piece.token ? std::u32string(1, static_cast<char32_t>(0x100000 + *piece.token))
                            : std::u32string(piece.text);
    }
    REQUIRE(pieces == plain_split(input, tokens));
  }
  CHECK(found > 10'000);
}

TEST_CASE("forty thousand added tokens are read and searched in no time" * doctest::timeout(20)) {
  std::string json = R"({"model": {"vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}}, "added_tokens": [)";
  constexpr int kTokens = 40'000;
  for (int i = 0; i < kTokens; ++i) {
    json += (i ? "," : "") + std::string(R"({"special": true, "content": "xxxxxxxxxxxxxxxx)") +
            std::to_string(i) + R"(.", "id": )" + std::to_string(i + 3) + "}";
  }
  const Tokenizer tokenizer = Tokenizer::load([&](std::string_view name) {
    return name == "tokenizer.json" ? std::optional(json + "]}") : std::nullopt;
  });
  std::string text;
  for (int i = 0; i < kTokens; ++i) text += "xxxxxxxxxxxxxxxx" + std::to_string(kTokens - 1 - i) + ".";
  const std::vector<TokenId> ids = tokenizer.encode(text);
  REQUIRE(ids.size() == kTokens + 2);
  for (int i = 0; i < kTokens; ++i) REQUIRE(ids[static_cast<size_t>(i) + 1] == kTokens + 2 - i);
}

TEST_CASE("a token of white space that takes white space along, in nothing but white space" *
          doctest::timeout(20)) {
  const AddedTokens tokens({{.content = U" ", .id = 7, .lstrip = true, .rstrip = true}});
  const std::u32string spaces(300'000, U' ');
  CHECK(split_added_tokens(spaces, tokens).size() == spaces.size());
}

}  // namespace
}  // namespace crumb::text

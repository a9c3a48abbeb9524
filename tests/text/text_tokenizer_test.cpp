#include "text/text_tokenizer.h"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "base/files/text.h"
#include "text/pipeline/byte_level.h"
#include "text/stream_decoder.h"
#include "text/unicode.h"

namespace crumb::text {
namespace {

using TokenIds = std::vector<TokenId>;

TextTokenizer tokenizer_of(const nlohmann::json& root) {
  return TextTokenizer::load([&](std::string_view name) -> std::optional<std::string> {
    return name == "tokenizer.json" ? std::optional(root.dump()) : std::nullopt;
  });
}

template <class Act>
std::string message_of(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Byte-level BPE: all bytes, and random merges of what is there already.
struct RandomBpe {
  std::vector<std::string> tokens;  // an index is an id
  std::map<std::string, TokenId> ids;
  std::vector<std::pair<std::string, std::string>> merges;

  explicit RandomBpe(unsigned seed, std::size_t count) {
    std::mt19937 random(seed);
    for (int byte = 0; byte < 256; ++byte) add(bytes_to_characters(std::string(1, static_cast<char>(byte))));
    const std::size_t a = ids.at("a");  // merges are of few letters, so that they meet
    while (merges.size() < count) {
      const std::size_t made = tokens.size() - 256;
      const auto draw = [&] {
        const std::size_t i = random() % (made + 4);
        return tokens[i < 4 ? a + i : 256 + i - 4];
      };
      const std::string left = draw(), right = draw();
      if (left.size() + right.size() > 12) continue;
      const std::pair<std::string, std::string> pair(left, right);
      if (std::ranges::find(merges, pair) != merges.end()) continue;
      merges.push_back(pair);
      if (!ids.contains(left + right)) add(left + right);
    }
  }

  void add(const std::string& token) {
    ids[token] = static_cast<TokenId>(tokens.size());
    tokens.push_back(token);
  }

  nlohmann::json file() const {
    nlohmann::json pairs = nlohmann::json::array();
    for (const auto& [left, right] : merges) pairs.push_back({left, right});
    return {{"model", {{"type", "BPE"}, {"vocab", ids}, {"merges", pairs}}},
            {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
            {"decoder", {{"type", "ByteLevel"}}}};
  }

  /// The definition: as long as there is a merge, the one of the lowest rank is done, at its first place.
  TokenIds encode(std::string_view text) const {
    std::vector<std::string> parts;
    for (const char c : text) parts.push_back(bytes_to_characters(std::string(1, c)));
    while (true) {
      std::size_t best = merges.size(), place = 0;
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        const std::pair<std::string, std::string> pair(parts[i], parts[i + 1]);
        const auto rank = static_cast<std::size_t>(std::ranges::find(merges, pair) - merges.begin());
        if (rank < best) best = rank, place = i;
      }
      if (best == merges.size()) break;
      parts[place] += parts[place + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    }
    TokenIds out;
    for (const std::string& part : parts) out.push_back(ids.at(part));
    return out;
  }
};

std::string random_text(std::mt19937& random) {
  std::u32string text;
  for (std::size_t left = random() % 30; left > 0; --left) {
    constexpr std::u32string_view kOthers = U" \n\u00e9\u4e2d\U0001F600\u0301";
    text += random() % 8 != 0 ? U'a' + random() % 4 : kOthers[random() % kOthers.size()];
  }
  return unicode::encode(text);
}

/// The stream's text, put together; every part is whole characters.
std::string streamed(const TextTokenizer& tokenizer, const TokenIds& ids) {
  StreamDecoder stream(tokenizer);
  std::string text;
  for (const TokenId id : ids) {
    const std::string part = stream.push(id);
    CHECK(is_utf8(part));
    text += part;
  }
  return text + stream.finish();
}

TEST_CASE("byte-level BPE is what its definition says, and its decoding is the text") {
  std::mt19937 random(1);
  for (unsigned seed = 0; seed < 4; ++seed) {
    const RandomBpe reference(seed, 40);
    const TextTokenizer tokenizer = tokenizer_of(reference.file());
    for (int i = 0; i < 1500; ++i) {
      const std::string text = random_text(random);
      const TokenIds ids = tokenizer.encode(text);
      REQUIRE(ids == reference.encode(text));
      REQUIRE(tokenizer.decode(ids) == text);
      REQUIRE(streamed(tokenizer, ids) == text);
    }
  }
}

TEST_CASE("the text of any ids is what a stream of them gives, whatever follows") {
  const RandomBpe reference(9, 30);
  nlohmann::json bytes = reference.file();
  nlohmann::json fallback = nlohmann::json::parse(R"({"model": {"type": "BPE", "merges": [],
      "vocab": {"\u2581": 0, "a": 1, "\u2581b": 2, "<0xE4>": 3, "<0xB8>": 4, "<0xAD>": 5, "<0x41>": 6, "\u4e2d": 7, "ab": 8}},
      "added_tokens": [{"id": 9, "content": "<s>", "special": true}],
      "decoder": {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Replace", "pattern": {"String": "aab"}, "content": "\u00e9"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 2}]}})");
  std::mt19937 random(2);
  for (const nlohmann::json& file : {bytes, fallback}) {
    const TextTokenizer tokenizer = tokenizer_of(file);
    for (int i = 0; i < 1500; ++i) {
      TokenIds ids(random() % 12);
      for (TokenId& id : ids) id = static_cast<TokenId>(random() % 12 + (random() % 2 ? 0 : 180));
      if (file == fallback)
        for (TokenId& id : ids) id %= 10;
      const std::string whole = tokenizer.decode(ids);
      CHECK(is_utf8(whole));
      REQUIRE(streamed(tokenizer, ids) == whole);
      // What has come out by any place is how the text of any other end begins, too.
      StreamDecoder stream(tokenizer);
      std::string so_far;
      for (std::size_t at = 0; at < ids.size(); ++at) {
        so_far += stream.push(ids[at]);
        TokenIds other(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
        REQUIRE(tokenizer.decode(other).starts_with(so_far));
        other.push_back(3);
        REQUIRE(tokenizer.decode(other).starts_with(so_far));
      }
      REQUIRE(so_far + stream.finish() == whole);
    }
  }
}

TEST_CASE("a stream holds back bytes that may become a character, and begins anew behind its end") {
  const RandomBpe reference(0, 1);
  const TextTokenizer tokenizer = tokenizer_of(reference.file());
  const auto id = [&](char byte) { return reference.ids.at(bytes_to_characters(std::string(1, byte))); };
  StreamDecoder stream(tokenizer);
  CHECK(stream.push(id('\xE4')) == "");
  CHECK(stream.push(id('\xB8')) == "");
  CHECK(stream.push(id('\xAD')) == "\u4e2d");
  CHECK(stream.push(id('\xF0')) == "");
  CHECK(stream.push(id('a')) == "\uFFFDa");
  CHECK(stream.push(id('\xC3')) == "");
  CHECK(stream.finish() == "\uFFFD");
  CHECK(stream.push(id('\xA9')) == "\uFFFD");
  CHECK(stream.push(id('\xED')) == "");
  CHECK(stream.push(id('\xA0')) == "\uFFFD\uFFFD");
  CHECK(stream.push(-1) == "");
  CHECK(stream.push(1'000'000) == "");
}

TEST_CASE("a run of byte tokens is a text, or all of it is replacement characters") {
  const TextTokenizer tokenizer = tokenizer_of(nlohmann::json::parse(
      R"({"model": {"type": "BPE", "merges": [], "vocab": {"a": 0, "<0xE4>": 1, "<0xB8>": 2, "<0xAD>": 3}},
          "decoder": {"type": "ByteFallback"}})"));
  StreamDecoder stream(tokenizer);
  CHECK(stream.push(1) == "");
  CHECK(stream.push(2) == "");
  CHECK(stream.push(3) == "");
  CHECK(stream.push(0) == "\u4e2da");
  CHECK(stream.push(1) == "");
  CHECK(stream.push(0) == "\uFFFDa");
  CHECK(tokenizer.decode(TokenIds{1, 2, 3, 3}) == "\uFFFD\uFFFD\uFFFD\uFFFD");
}

TEST_CASE("special tokens stand for nothing unless they are asked for") {
  const TextTokenizer tokenizer = tokenizer_of(nlohmann::json::parse(
      R"({"model": {"type": "BPE", "merges": [], "vocab": {"a": 0, "<s>": 1}},
          "added_tokens": [{"id": 1, "content": "<s>", "special": true}, {"id": 5, "content": "<x>"}]})"));
  CHECK(tokenizer.encode("a<s><x>a") == TokenIds{0, 1, 5, 0});
  CHECK(tokenizer.decode(TokenIds{1, 0, 5}) == "a <x>");
  CHECK(tokenizer.decode(TokenIds{1, 0, 5}, false) == "<s> a <x>");
  CHECK(tokenizer.is_special(1));
  CHECK(!tokenizer.is_special(5));
  CHECK(!tokenizer.is_special(99));
}

TEST_CASE("regular expressions that take too much end with an error that names them") {
  const auto split_with = [](const std::string& expression) {
    return tokenizer_of(
        {{"model", {{"type", "BPE"}, {"vocab", {{"x", 0}}}, {"merges", nlohmann::json::array()}}},
         {"pre_tokenizer",
          {{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}}}});
  };
  const TextTokenizer hostile = split_with("(x+x+)+[yz]");
  const std::string said = message_of([&] { hostile.encode(std::string(5000, 'x')); });
  CHECK(said.find("'(x+x+)+[yz]' takes too much on a text of 5000 bytes") != std::string::npos);
  CHECK(hostile.encode("xxy").size() == 2);  // y is no token
  std::string many;
  for (int i = 0; i < 50'000; ++i) many += "xxxxxxxxxxxxxxxxxx ";
  CHECK(message_of([&] { hostile.encode(many); }).find("takes too much") != std::string::npos);
  CHECK(message_of([&] { split_with("(x"); }).find("'(x'") != std::string::npos);
  CHECK(message_of([&] { split_with(std::string(20'000, 'x')); }).find("longer than") != std::string::npos);
}

}  // namespace
}  // namespace crumb::text

// The tokenizer's files and its text, parted by the byte 1E in the order of kFiles, the text last: only
// crumb::Error is thrown, and ids are what the vocabulary can yield.
#include <algorithm>
#include <array>

#include "base/files/text.h"
#include "tests/fuzz/fuzz.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace crumb::testing {
namespace {

constexpr std::array<std::string_view, 6> kFiles = {"tokenizer.json",        "vocab.txt",
                                                    "tokenizer_config.json", "special_tokens_map.json",
                                                    "added_tokens.json",     "sentence_bert_config.json"};
constexpr char kSeparator = '\x1E';

std::string_view take_part(std::string_view& rest) {
  const std::size_t end = std::min(rest.find(kSeparator), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

void check_encode(text::Tokenizer& tokenizer, std::string_view text) {
  const std::vector<text::TokenId> ids = tokenizer.encode(text);
  require(ids.size() >= 2, "a text has a first and a last token");
  require(ids.size() <= tokenizer.max_length().value_or(SIZE_MAX), "a text is cut to the length");
  require(std::ranges::all_of(ids, [&](auto id) { return id >= 0 && id <= tokenizer.largest_id(); }),
          "an id is one of the vocabulary's");
  const std::vector<text::TokenId> none = tokenizer.encode("");
  require(none.size() == 2 && none[0] == ids.front() && none[1] == ids.back(), "first and last are fixed");

  tokenizer.limit_length(5);
  const std::vector<text::TokenId> cut = tokenizer.encode(text);
  require(cut.size() == std::min<std::size_t>(ids.size(), 5) && cut.back() == ids.back() &&
              std::equal(cut.begin(), cut.end() - 1, ids.begin()),
          "a cut text is the beginning of the whole");
}

}  // namespace

void fuzz(std::span<const std::byte> input) {
  std::string_view rest = text_of(input);
  std::array<std::string_view, kFiles.size()> files;
  for (std::string_view& file : files) file = take_part(rest);
  require(is_utf8(text::unicode::encode(text::unicode::decode(rest))), "decoded text is well-formed");
  const auto read = [&](std::string_view name) -> std::optional<std::string> {
    const auto at = static_cast<std::size_t>(std::ranges::find(kFiles, name) - kFiles.begin());
    if (at == kFiles.size() || files[at].empty()) return std::nullopt;
    return std::string(files[at]);
  };
  try {
    text::Tokenizer tokenizer = text::Tokenizer::load(read);
    check_encode(tokenizer, rest);
  } catch (const Error& error) {
    require(*error.what() != '\0', "a failure says why");
  }
}

}  // namespace crumb::testing

// A SentencePiece model, and a text behind the last byte 1E: only crumb::Error is thrown, and the tokenizer keeps what every
// one promises.
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tokens.h"

namespace crumb::testing {

void fuzz(std::span<const std::byte> input) {
  constexpr std::size_t kLongestFuzzedText = 200;
  const std::string_view whole = text_of(input);
  const std::size_t end = whole.rfind('\x1E');
  const std::string_view text =
      end == std::string_view::npos ? "the quick \xEF\xAC\x81" : whole.substr(end + 1);
  const auto read = [&](std::string_view name) {
    return name == "tokenizer.model" ? std::optional<std::string>(whole.substr(0, end)) : std::nullopt;
  };
  try {
    check_tokenizer(text::TextTokenizer::load(read), text.substr(0, kLongestFuzzedText));
  } catch (const Error& error) {
    require(*error.what() != '\0', "a failure says why");
  }
}

}  // namespace crumb::testing

// A tokenizer.json, a tokenizer_config.json and a text, parted by the byte 1E: only crumb::Error is thrown, ids are what
// the file can yield, and a stream of ids gives their text, in whole characters.
#include <algorithm>

#include "base/files/text.h"
#include "tests/fuzz/fuzz.h"
#include "text/stream_decoder.h"
#include "text/text_tokenizer.h"

namespace crumb::testing {
namespace {

constexpr char kPartEnd = '\x1E';
constexpr std::size_t kLongestFuzzedText = 200;

std::string_view next_part(std::string_view& rest) {
  const std::size_t end = std::min(rest.find(kPartEnd), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

void check_decode(const text::TextTokenizer& tokenizer, const std::vector<text::TokenId>& ids) {
  for (const bool skip : {false, true}) {
    text::StreamDecoder stream(tokenizer, skip);
    std::string text;
    for (const text::TokenId id : ids) {
      const std::string part = stream.push(id);
      require(is_utf8(part), "a stream gives whole characters");
      text += part;
    }
    text += stream.finish();
    require(is_utf8(text), "decoded text is UTF-8");
    require(text == tokenizer.decode(ids, skip), "a stream gives the text");
  }
}

}  // namespace

void fuzz(std::span<const std::byte> input) {
  std::string_view rest = text_of(input);
  const std::string_view file = next_part(rest), config = next_part(rest);
  const std::string_view text = rest.substr(0, kLongestFuzzedText);
  const auto read = [&](std::string_view name) -> std::optional<std::string> {
    if (name == "tokenizer.json") return std::string(file);
    return config.empty() ? std::nullopt : std::optional<std::string>(config);
  };
  try {
    const auto tokenizer = text::TextTokenizer::load(read);
    // Bytes of the text as ids too: sequences that no text gives.
    std::vector<text::TokenId> any;
    for (const char c : text) any.push_back(static_cast<unsigned char>(c) % 32);
    check_decode(tokenizer, any);
    const std::vector<text::TokenId> ids = tokenizer.encode(text);
    check_decode(tokenizer, ids);
    require(tokenizer.encode(text) == ids, "encoding is a function");
  } catch (const Error& error) {
    require(*error.what() != '\0', "a failure says why");
  }
}

}  // namespace crumb::testing

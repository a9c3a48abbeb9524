// A tokenizer.json, a tokenizer_config.json and a text, parted by the byte 1E, or in place of an empty
// tokenizer.json, behind it, a vocab.json and a merges.txt: only crumb::Error is thrown, ids are what the
// files can yield, and a stream of ids gives their text, in whole characters.
#include <algorithm>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tokens.h"

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

}  // namespace

void fuzz(std::span<const std::byte> input) {
  std::string_view rest = text_of(input);
  const std::string_view file = next_part(rest);
  const std::string_view vocab = file.empty() ? next_part(rest) : "",
                         merges = file.empty() ? next_part(rest) : "";
  const std::string_view config = next_part(rest);
  const auto read = [&](std::string_view name) -> std::optional<std::string> {
    const bool of_vocab = name == "vocab.json" || name == "merges.txt";
    if (name == "tokenizer.json" ? file.empty() : of_vocab && !file.empty()) return std::nullopt;
    if (name == "tokenizer.json") return std::string(file);
    if (of_vocab) return std::string(name == "vocab.json" ? vocab : merges);
    return config.empty() ? std::nullopt : std::optional<std::string>(config);
  };
  try {
    check_tokenizer(text::TextTokenizer::load(read), rest.substr(0, kLongestFuzzedText));
  } catch (const Error& error) {
    require(*error.what() != '\0', "a failure says why");
  }
}

}  // namespace crumb::testing

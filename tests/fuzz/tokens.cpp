#include "tests/fuzz/tokens.h"

#include "base/files/text.h"
#include "tests/fuzz/fuzz.h"
#include "text/stream_decoder.h"

namespace crumb::testing {
namespace {

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

void check_tokenizer(const text::TextTokenizer& tokenizer, std::string_view text) {
  // Bytes of the text as ids too: sequences that no text gives.
  std::vector<text::TokenId> any;
  for (const char c : text) any.push_back(static_cast<unsigned char>(c) % 32);
  check_decode(tokenizer, any);
  const std::vector<text::TokenId> ids = tokenizer.encode(text);
  check_decode(tokenizer, ids);
  require(tokenizer.encode(text) == ids, "encoding is a function");
}

}  // namespace crumb::testing

#include "text/subword/words.h"

#include "base/files/text.h"
#include "text/unicode.h"

namespace crumb::text {

Result<Words> Words::make(TokenTable tokens, WordPiece::Options options) {
  if (!tokens.find(options.unknown_token))
    return Failure{"unk_token " + quote_text(options.unknown_token) + " is not in the vocabulary"};
  Vocabulary vocabulary;
  tokens.for_each([&](const std::string& token, TokenId id) { vocabulary.add(token, id); });
  return Words(std::move(tokens), WordPiece(std::move(vocabulary), std::move(options)));
}

void Words::encode(std::string_view word, std::vector<TokenId>& ids) const {
  pieces_.encode(unicode::decode(word), ids);
}

}  // namespace crumb::text

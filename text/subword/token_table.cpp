#include "text/subword/token_table.h"

#include <array>

namespace crumb::text {

std::optional<TokenId> find_byte(const TokenTable& tokens, unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  const std::array<char, 6> name = {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
  return tokens.find(std::string_view(name.data(), name.size()));
}

}  // namespace crumb::text

// Decodes UTF-8, for all of Crumb (Unicode 15, section 3.9).
#pragma once

#include <cstddef>
#include <string_view>

namespace crumb {

struct Utf8Character {
  char32_t code = 0xFFFD;  ///< the replacement character where the bytes are ill-formed
  std::size_t length =
      1;  ///< bytes that it takes; for ill-formed ones, those of a maximal subpart (table 3-8)
  bool sound = false;
};

/// Returns the character that text begins with; overlong forms, surrogates and characters above U+10FFFF are
/// ill-formed. Precondition: text is not empty.
Utf8Character first_character(std::string_view text);

}  // namespace crumb

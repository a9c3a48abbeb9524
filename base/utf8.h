// UTF-8, decoded in one place (Unicode 15, section 3.9).
#pragma once

#include <cstddef>
#include <string_view>

namespace crumb {

struct Utf8Character {
  char32_t code = 0xFFFD;  ///< the replacement character where the bytes are ill-formed
  std::size_t length =
      1;  ///< bytes that it takes; of ill-formed ones, those of a maximal subpart (table 3-8)
  bool sound = false;
};

/// What text begins with; overlong forms, surrogates and what is above U+10FFFF are ill-formed. Precondition: it is not
/// empty.
Utf8Character first_character(std::string_view text);

}  // namespace crumb

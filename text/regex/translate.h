// A regular expression as Oniguruma takes it (Ruby's syntax, UTF-8), written for PCRE2 (UTF and UCP):
//
//   \s \w \h and the like   their Unicode properties: PCRE2 has others behind these letters
//   \p{Letter}, \p{Han}     \p{L}, \p{sc:Han}: scripts, not script extensions
//   (?m:...)                (?s:...): the dot that takes line ends; ^ and $ are those of lines in both
//   {,n}, \v, \uHHHH        {0,n}, \x{b}, \x{HHHH}
//
// Refused: back references and calls, named groups, \b \B \K \G \R \X, {n}? and {n,m}+ (other quantifiers in
// PCRE2), POSIX brackets, classes inside classes and &&, verbs (*...), the flag x.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace crumb::text {

Result<std::string> translate_regex(std::string_view expression);

}  // namespace crumb::text

// A regular expression as Oniguruma takes it (Ruby's syntax, UTF-8), written for PCRE2 (UTF and UCP):
//
//   \s \w \h and the like   their Unicode properties: PCRE2 has others behind these letters
//   \p{Letter}, \p{Han}     \p{L}, \p{sc:Han}: scripts, not script extensions
//   (?m:...)                (?s:...): the dot that takes line ends; ^ and $ are those of lines in both
//   {,n}, \v, \uHHHH        {0,n}, \x{b}, \x{HHHH}
//   \b, \B                  looks around, for the characters of \w
//   [a[bc]]                 [abc]
//   [A&&B], [A&&[^B]]       (?:(?=[A])[B]), (?:(?=[A])[^B])
//
// Refused: back references and calls, named groups, \K \G \R \X, {n}? and {n,m}+ (other quantifiers in PCRE2),
// POSIX brackets, other negated classes inside classes, other &&, verbs (*...), the flag x.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace crumb::text {

Result<std::string> translate_regex(std::string_view expression);

}  // namespace crumb::text

// Converts ASCII letters to one case. Other bytes stay as they are, whatever the locale.
#pragma once

#include <algorithm>
#include <string>

namespace crumb {

constexpr char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
constexpr char to_upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

inline std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), to_lower);
  return text;
}
inline std::string upper_case(std::string text) {
  std::ranges::transform(text, text.begin(), to_upper);
  return text;
}

}  // namespace crumb

// Formats numbers for messages.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace crumb {

/// Returns the shortest decimal text that reads back as this very number: "0.1", "3.4028235e+38", "1e-45";
/// "inf", "-inf", "nan".
template <class Float>
requires std::is_floating_point_v<Float> std::string number_text(Float value) {
  if (std::isnan(value)) return "nan";
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

/// Returns "1 tensor", "0 tensors", "2 tensors"; `plural` where it is not the noun with an s.
inline std::string count_text(std::uint64_t count, std::string_view noun, std::string_view plural = {}) {
  std::string text = std::to_string(count) + ' ';
  if (count == 1 || plural.empty()) text += noun;
  if (count != 1) text += plural.empty() ? "s" : plural;
  return text;
}

/// Returns "1 byte follows", "2 bytes follow".
inline std::string follow_text(std::uint64_t count, std::string_view noun) {
  return count_text(count, noun) + (count == 1 ? " follows" : " follow");
}

}  // namespace crumb

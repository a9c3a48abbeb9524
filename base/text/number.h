// Parses numbers that are written as text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace crumb {

/// Returns the decimal number that all of `text` is: digits, with a minus before them where T has a sign; for
/// floating-point types also a point, an exponent, "inf" and "nan". No space, no plus. Returns nothing where
/// the text is empty, has anything else in it, or is a number that T cannot hold.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T number{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return number;
}

}  // namespace crumb

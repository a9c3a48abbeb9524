// Formats numbers for people, with a given number of digits after the point.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>

namespace crumb {

/// Returns printf's "%.*f"; "inf" and "nan" as words.
inline std::string fixed(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text(static_cast<std::size_t>(std::snprintf(nullptr, 0, "%.*f", digits, value)), '\0');
  std::snprintf(text.data(), text.size() + 1, "%.*f", digits, value);
  return text;
}

}  // namespace crumb

#include "report/numbers.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/text/fixed.h"
#include "base/text/number.h"

namespace crumb::report {

std::string short_number(double value) {
  if (!std::isfinite(value)) return fixed(value, 0);
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

bool is_plain_number(std::string_view text) {
  if (text.find_first_not_of("0123456789.-") != std::string_view::npos) return false;
  return parse_number<double>(text).has_value();
}

std::string script_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

}  // namespace crumb::report

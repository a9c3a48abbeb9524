#include "text/chat/python_numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/files/text.h"
#include "base/text/ascii_case.h"
#include "text/chat/python_text.h"
#include "text/chat/trouble.h"

namespace crumb::text::chat {
namespace {

/// Digits as Python reads them, without white space around and underscores between them; nothing where they
/// are no number.
std::optional<std::string> number_text(const std::string& text) {
  if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }) &&
      strip(text, true, true).find_first_not_of("+-_.0123456789abcdefABCDEFxXinfINFtyTY") !=
          std::string_view::npos)
    throw Trouble("numbers of other digits than those of ASCII are not supported");
  std::string_view inside = strip(text, true, true);
  if (inside.starts_with('+') && !inside.starts_with("+-")) inside.remove_prefix(1);
  std::string out;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    const auto is_digit = [&](std::size_t at) {
      return at < inside.size() && inside[at] >= '0' && inside[at] <= '9';
    };
    if (inside[i] == '_') {
      if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
      continue;
    }
    out += inside[i];
  }
  return out;
}

}  // namespace

std::optional<std::int64_t> integer_in(const std::string& text) {
  const auto digits = number_text(text);
  if (!digits) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits->data(), digits->data() + digits->size(), value);
  if (error == std::errc::result_out_of_range)
    throw Trouble("an integer of more than 64 bits is not supported");
  if (error != std::errc() || end != digits->data() + digits->size()) return std::nullopt;
  return value;
}

std::optional<double> real_in(const std::string& text) {
  const auto digits = number_text(text);
  if (!digits) return std::nullopt;
  const bool negative = digits->starts_with('-');
  const std::string word = lower_case(digits->substr(negative ? 1 : 0));
  if (word == "inf" || word == "infinity") return negative ? -INFINITY : INFINITY;
  if (word == "nan") return NAN;
  if (word.empty() || word.find_first_not_of("0123456789.e+-") != std::string::npos) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(digits->data(), digits->data() + digits->size(), value);
  if (error == std::errc::result_out_of_range)
    throw Trouble("the number " + quote_text(text) + " is not supported");
  if (error != std::errc() || end != digits->data() + digits->size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> truncated(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (std::abs(value) >= 9.2e18) throw Trouble("an integer of more than 64 bits is not supported");
  return static_cast<std::int64_t>(value);
}

}  // namespace crumb::text::chat

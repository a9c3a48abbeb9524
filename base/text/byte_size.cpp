#include "base/text/byte_size.h"

#include <array>
#include <optional>
#include <string>

#include "base/checked_size.h"
#include "base/files/text.h"
#include "base/text/ascii_case.h"

namespace crumb {
namespace {

struct Unit {
  std::string_view name;  ///< in lower case
  std::uint64_t bytes;
};

constexpr std::uint64_t kThousand = 1000;
constexpr std::array<Unit, 9> kUnits = {{
    {"b", 1},
    {"kb", kThousand},
    {"mb", kThousand* kThousand},
    {"gb", kThousand* kThousand* kThousand},
    {"tb", kThousand* kThousand* kThousand* kThousand},
    {"kib", std::uint64_t{1} << 10},
    {"mib", std::uint64_t{1} << 20},
    {"gib", std::uint64_t{1} << 30},
    {"tib", std::uint64_t{1} << 40},
}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<std::uint64_t> unit_bytes(std::string_view name) {
  const std::string lower = lower_case(std::string(name));
  for (const Unit& unit : kUnits)
    if (unit.name == lower) return unit.bytes;
  return std::nullopt;
}

Failure not_a_size(std::string_view text, const std::string& why) {
  return Failure{quote_text(text) + " is no size: " + why + " (write 500MB, 1.5GB or 2GiB)"};
}

}  // namespace

Result<std::uint64_t> parse_byte_size(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  const std::string_view whole = text.substr(0, end);
  std::string_view fraction;
  if (end < text.size() && text[end] == '.') {
    const std::size_t begin = ++end;
    while (end < text.size() && is_digit(text[end])) ++end;
    fraction = text.substr(begin, end - begin);
    if (fraction.empty()) return not_a_size(text, "digits are expected after the point");
  }
  if (whole.empty()) return not_a_size(text, "it does not begin with a number");
  while (end < text.size() && text[end] == ' ') ++end;
  const std::string_view name = text.substr(end);
  if (name.empty()) return not_a_size(text, "the unit is missing");
  const std::optional<std::uint64_t> unit = unit_bytes(name);
  if (!unit) return not_a_size(text, "the unit " + quote_text(name) + " is unknown");

  checked::Size units = 0;
  for (const char c : whole) units = checked::add(checked::multiply(units, 10), c - '0');
  // Computes the fraction from its last digit on. floor((digit * unit + x) / 10) is the same for x and
  // floor(x), so nothing is lost on the way. A unit is below 2^41.
  std::uint64_t part = 0;
  for (std::size_t i = fraction.size(); i > 0; --i)
    part = (static_cast<std::uint64_t>(fraction[i - 1] - '0') * *unit + part) / 10;
  const checked::Size bytes = checked::add(checked::multiply(units, *unit), part);
  if (!bytes) return not_a_size(text, "it passes 2^64 bytes");
  if (*bytes == 0) return not_a_size(text, "less than one byte");
  return *bytes;
}

}  // namespace crumb

// Checks for flags that take numbers; messages say in few words what was expected.
#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "base/files/text.h"
#include "base/text/number.h"

namespace crumb::cli {

/// Whole numbers. Does not check the range of the flag's own type.
inline CLI::Validator at_least(std::uint64_t least,
                               std::uint64_t most = std::numeric_limits<std::int64_t>::max()) {
  const bool is_open = most == std::numeric_limits<std::int64_t>::max();
  return CLI::Validator(
      [least, most, is_open](const std::string& text) {
        const auto number = parse_number<std::uint64_t>(text);
        if (number && *number >= least && *number <= most) return std::string();
        return "expected a whole number from " + std::to_string(least) +
               (is_open ? " on" : " to " + std::to_string(most)) + ", found " + quote_text(text);
      },
      "");
}

/// Finite numbers above zero.
inline CLI::Validator above_zero() {
  return CLI::Validator(
      [](const std::string& text) {
        const auto number = parse_number<double>(text);
        if (number && *number > 0 && std::isfinite(*number)) return std::string();
        return "expected a number above 0, found " + quote_text(text);
      },
      "");
}

/// Learning rates: with a larger one, numbers leave float32 after a few products.
inline CLI::Validator learning_rate() {
  constexpr double kMost = 1e6;
  return CLI::Validator(
      [](const std::string& text) {
        const auto number = parse_number<double>(text);
        if (number && *number > 0 && *number <= kMost) return std::string();
        return "expected a number above 0, at most 1000000, found " + quote_text(text);
      },
      "");
}

/// The size of a step: sequences, lines, samples.
inline CLI::Validator batch_size() { return at_least(1, std::uint64_t{1} << 20); }

}  // namespace crumb::cli

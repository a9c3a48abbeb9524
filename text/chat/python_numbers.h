// Reads texts as numbers, as Python's int and float do: white space around, underscores between digits, ASCII
// digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace crumb::text::chat {

/// Nothing where the text is no number. Throws Trouble where it is a number that is not supported here.
std::optional<std::int64_t> integer_in(const std::string& text);
std::optional<double> real_in(const std::string& text);

/// The integer part of a float; nothing where it has none. Throws Trouble beyond 64 bits.
std::optional<std::int64_t> truncated(double value);

}  // namespace crumb::text::chat

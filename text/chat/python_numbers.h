// Texts as numbers, as Python's int and float read them: white space around, underscores between digits, ASCII digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace crumb::text::chat {

/// Nothing where the text is no number. Throw Trouble where it is one that is not supported here.
std::optional<std::int64_t> integer_in(const std::string& text);
std::optional<double> real_in(const std::string& text);

/// A float without its fraction; nothing where it is no number. Throws Trouble beyond 64 bits.
std::optional<std::int64_t> truncated(double value);

}  // namespace crumb::text::chat

// Python's str methods on UTF-8, for which templates are written. White space is str.isspace's, positions
// count code points.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace crumb::text::chat {

bool is_space(char32_t c);

/// The text without characters of `characters` (white space where it is null) at its ends.
std::string_view strip(std::string_view text, bool left, bool right,
                       const std::string_view* characters = nullptr);

/// Splits at line ends, as str.splitlines does; they are kept where `keep` is true.
std::vector<std::string_view> split_lines(std::string_view text, bool keep = false);

/// The number of code points.
std::size_t length_of(std::string_view text);
/// The byte offset of a code point; the text's size for one past the last.
std::size_t offset_of(std::string_view text, std::size_t code_point);

/// They throw Trouble where a letter becomes several that are not known here (Greek with iota below, a few
/// others).
std::string lower(std::string_view text);
std::string upper(std::string_view text);
/// Title case for the first letter, lower case for the others.
std::string capitalize(std::string_view text);
/// capitalize() of each run of cased characters, as str.title does.
std::string title(std::string_view text);

/// Whether the text has cased characters, and all of them are of that case.
bool is_lower(std::string_view text);
bool is_upper(std::string_view text);

/// The text as repr() writes it.
std::string repr_text(std::string_view text);
std::string float_text(double value);

}  // namespace crumb::text::chat

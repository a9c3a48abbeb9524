// What Python's str does, on UTF-8: templates are written for it. White space is str.isspace's, positions are code points.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace crumb::text::chat {

bool is_space(char32_t c);

/// Without the characters of `characters` (white space where it is null) at its ends.
std::string_view strip(std::string_view text, bool left, bool right,
                       const std::string_view* characters = nullptr);

/// At line ends as str.splitlines knows them, which are kept where `keep` is true.
std::vector<std::string_view> split_lines(std::string_view text, bool keep = false);

/// Code points.
std::size_t length_of(std::string_view text);
/// The byte at which a code point begins; the text's size past the last.
std::size_t offset_of(std::string_view text, std::size_t code_point);

/// Throw Trouble where a letter becomes several that are not known here (Greek with iota below, a few others).
std::string lower(std::string_view text);
std::string upper(std::string_view text);
/// The first letter's title case, the others' lower case.
std::string capitalize(std::string_view text);
/// capitalize() of each run of cased characters, as str.title.
std::string title(std::string_view text);

/// Whether there are cased characters, and all of them are of that case.
bool is_lower(std::string_view text);
bool is_upper(std::string_view text);

/// As repr() writes it.
std::string repr_text(std::string_view text);
std::string float_text(double value);

}  // namespace crumb::text::chat

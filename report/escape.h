// Texts from files, made safe for a page.
#pragma once

#include <string>
#include <string_view>

namespace crumb::report {

/// Spells out what a reader would not see, or would be misled by: control characters and bytes that are not UTF-8
/// as \xNN, marks that turn the direction of a text around (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to
/// U+2069) and noncharacters as \u{NNNN}. Keeps line ends and tabs where `keeps_lines`.
std::string visible(std::string_view text, bool keeps_lines = false);

/// visible(), escaped for HTML between tags and in quoted attributes.
std::string html(std::string_view text, bool keeps_lines = false);

/// visible(), escaped for a line of Markdown, in or out of a table.
std::string markdown(std::string_view text);

}  // namespace crumb::report

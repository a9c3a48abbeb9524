// GPT-2's way to write bytes as printable characters: printable ones of Latin-1 stand for themselves, the
// others become U+0100 and following, in their order.
#pragma once

#include <string>
#include <string_view>

namespace crumb::text {

std::string bytes_to_characters(std::string_view bytes);

/// The bytes that a token of such characters stands for; the token's own bytes where one of its characters is
/// not among them.
std::string characters_to_bytes(std::string_view token);

}  // namespace crumb::text

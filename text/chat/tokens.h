// A template's text as tokens: what stands between tags, and what stands in them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace crumb::text::chat {

struct Token {
  enum class Kind : std::uint8_t {
    kData,
    kBlockBegin,
    kBlockEnd,
    kVariableBegin,
    kVariableEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Kind kind = Kind::kEnd;
  unsigned line = 1;
  std::string text;  ///< of a string, without quotes and escapes
};

/// As jinja2's lexer with trim_blocks and lstrip_blocks: a line end right behind a block or a comment goes, and so does
/// the white space before them on their line; - strips, + keeps. Line ends become \n, and one at the end goes. The last
/// token is kEnd. Throws Trouble, with `line` set to where.
std::vector<Token> read_tokens(std::string_view source, unsigned& line);

}  // namespace crumb::text::chat

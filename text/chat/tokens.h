// The tokens of a template: the text between tags, and the tokens inside of tags.
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

/// As jinja2's lexer with trim_blocks and lstrip_blocks: removes a line end right behind a block or a
/// comment, and the white space before them on their line; - strips, + keeps. Line ends become \n, and one at
/// the end is removed. The last token is kEnd. Throws Trouble, with `line` set to the line of the error.
std::vector<Token> read_tokens(std::string_view source, unsigned& line);

}  // namespace crumb::text::chat

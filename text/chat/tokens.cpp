#include "text/chat/tokens.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/files/text.h"
#include "base/text/ascii_case.h"
#include "base/utf8.h"
#include "text/chat/python_text.h"
#include "text/chat/trouble.h"
#include "text/unicode.h"

namespace crumb::text::chat {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(char c) { return is_name_start(c) || is_digit(c); }

/// Line ends as \n, without one at the end.
std::string normal_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    out += source[i] == '\r' ? '\n' : source[i];
    if (source.substr(i).starts_with("\r\n")) ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view source, unsigned& line) : source_(source), line_(line) {}

  std::vector<Token> read() {
    while (at_ < source_.size()) read_data();
    add(Token::Kind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return source_.substr(at_); }
  bool takes(std::string_view text) {
    if (!rest().starts_with(text)) return false;
    move(text.size());
    return true;
  }
  void move(std::size_t bytes) {
    line_ += static_cast<unsigned>(std::ranges::count(source_.substr(at_, bytes), '\n'));
    at_ += bytes;
  }
  void add(Token::Kind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  void skip_space() {
    const std::string_view text = rest();
    move(text.size() - strip(text, true, false).size());
  }

  /// Reads data up to the next tag, and that tag's beginning.
  void read_data() {
    std::size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 == source_.size()) return finish();
      if (const char next = source_[tag + 1]; next == '{' || next == '%' || next == '#') break;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    add_data(source_.substr(at_, tag - at_), sign, kind != '{');
    move(tag + 2 - at_);
    if (sign == '-' || sign == '+') move(1);
    if (kind == '#') return skip_comment();
    if (kind == '%' && takes_raw()) return;
    add(kind == '{' ? Token::Kind::kVariableBegin : Token::Kind::kBlockBegin, {});
    read_tag(kind == '%');
  }

  void finish() {
    add(Token::Kind::kData, std::string(rest()));
    move(source_.size() - at_);
  }

  void add_data(std::string_view data, char sign, bool may_strip) {
    if (sign == '-') {
      data = strip(data, false, true);
    } else if (sign != '+' && may_strip) {
      const std::size_t line = data.rfind('\n') + 1;  // 0 where the data has no line end
      if ((line > 0 || line_begins_) && strip(data.substr(line), true, false).empty())
        data = data.substr(0, line);
    }
    if (!data.empty()) add(Token::Kind::kData, std::string(data));
  }

  /// Reads the end of a tag, whose last two characters are `close`; returns whether it is here.
  bool takes_end(std::string_view close, bool is_block) {
    const std::size_t before = at_;
    if (takes("-" + std::string(close))) {
      skip_space();
    } else if (is_block && takes("+" + std::string(close))) {
    } else if (takes(close)) {
      if (is_block) takes("\n");
    } else {
      return false;
    }
    line_begins_ = at_ > before && source_[at_ - 1] == '\n';
    return true;
  }

  void skip_comment() {
    const std::size_t begin = at_;  // one that begins where the template ends does not count
    while (at_ < source_.size()) {
      const std::size_t mark = std::min(source_.find_first_of("#-+", at_), source_.size());
      move(mark - at_);
      if (takes_end("#}", true)) return;
      if (at_ < source_.size()) move(1);
    }
    if (at_ != begin) throw Trouble("a comment has no end");
  }

  bool takes_raw() {
    const std::size_t at = at_;
    const unsigned line = line_;
    skip_space();
    if (takes("raw")) {
      skip_space();
      const bool strips = takes("-%}");
      if (strips) skip_space();
      if (strips || takes("%}")) {
        line_begins_ = source_[at_ - 1] == '\n';
        read_raw();
        return true;
      }
    }
    at_ = at;
    line_ = line;
    return false;
  }

  void read_raw() {
    const std::size_t begin = at_;
    const unsigned line = line_;
    for (std::size_t tag = at_; (tag = source_.find("{%", tag)) != std::string_view::npos; ++tag) {
      at_ = tag + 2;
      line_ = line + static_cast<unsigned>(std::ranges::count(source_.substr(begin, at_ - begin), '\n'));
      const char sign = at_ < source_.size() ? source_[at_] : '\0';
      if (sign == '-' || sign == '+') move(1);
      skip_space();
      if (!takes("endraw")) continue;
      skip_space();
      const bool begins = line_begins_;
      if (!takes_end("%}", true)) continue;
      const bool now = std::exchange(line_begins_, begins);
      add_data(source_.substr(begin, tag - begin), sign, true);
      line_begins_ = now;
      return;
    }
    if (begin != source_.size()) throw Trouble("the block 'raw' has no end");
  }

  void read_tag(bool is_block) {
    const std::string_view close = is_block ? "%}" : "}}";
    std::string open;  // brackets that are not closed yet
    for (;;) {
      skip_space();
      if (at_ == source_.size()) return;
      if (open.empty() && takes_end(close, is_block)) return add_end(is_block);
      if (read_number() || read_name() || read_string()) continue;
      const std::string_view text = read_operator();
      if (text == "(" || text == "[" || text == "{") open += text == "(" ? ')' : text == "[" ? ']' : '}';
      if (text != ")" && text != "]" && text != "}") continue;
      if (open.empty() || open.back() != text[0])
        throw Trouble("found " + quote_text(text) + " without its beginning");
      open.pop_back();
    }
  }

  void add_end(bool is_block) { add(is_block ? Token::Kind::kBlockEnd : Token::Kind::kVariableEnd, {}); }

  /// The end of the digits, with single underscores between them, from `from` on; `from` where there are
  /// none.
  std::size_t digits(std::size_t from) const {
    std::size_t end = from;
    while (end < source_.size() &&
           (is_digit(source_[end]) || (source_[end] == '_' && end > from && is_digit(source_[end - 1]) &&
                                       end + 1 < source_.size() && is_digit(source_[end + 1]))))
      ++end;
    return end;
  }

  bool read_number() {
    if (!is_digit(source_[at_])) return false;
    const auto at = [this](std::size_t i) { return i < source_.size() ? source_[i] : '\0'; };
    const std::size_t whole = digits(at_);
    std::size_t end = whole;
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (!after_dot) {
      if (at(end) == '.' && is_digit(at(end + 1))) end = digits(end + 1);
      if (at(end) == 'e' || at(end) == 'E') {
        const std::size_t sign = at(end + 1) == '+' || at(end + 1) == '-' ? 2 : 1;
        if (is_digit(at(end + sign))) end = digits(end + sign);
      }
    }
    const bool is_float = end != whole;
    if (!is_float) {
      if (const char mark = to_lower(at(at_ + 1));
          at(at_) == '0' && (mark == 'x' || mark == 'o' || mark == 'b'))
        throw Trouble("integers with another base than 10 are not supported");
      if (at(at_) == '0') {  // 0 and 00; no other number begins with 0
        end = at_;
        while (at(end) == '0' || (at(end) == '_' && at(end + 1) == '0')) ++end;
      }
    }
    std::string text(source_.substr(at_, end - at_));
    std::erase(text, '_');
    add(is_float ? Token::Kind::kFloat : Token::Kind::kInteger, std::move(text));
    move(end - at_);
    return true;
  }

  bool read_name() {
    if (!is_name_start(source_[at_])) return false;
    std::size_t end = at_;
    while (end < source_.size() && is_name(source_[end])) ++end;
    if (end < source_.size() && static_cast<unsigned char>(source_[end]) >= 0x80 &&
        !is_space(first_character(source_.substr(end)).code))
      throw Trouble("names of other letters than those of ASCII are not supported");
    add(Token::Kind::kName, std::string(source_.substr(at_, end - at_)));
    move(end - at_);
    return true;
  }

  bool read_string() {
    const char quote = source_[at_];
    if (quote != '\'' && quote != '"') return false;
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) throw Trouble("a string has no end");
    add(Token::Kind::kString, unescaped(source_.substr(at_ + 1, end - at_ - 1)));
    move(end + 1 - at_);
    return true;
  }

  /// Resolves Python's escapes.
  static std::string unescaped(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        out += text[i];
        continue;
      }
      const char kind = text[++i];
      constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
      if (const std::size_t known = kLetters.find(kind); known != std::string_view::npos) {
        out += kMeanings[known];
      } else if (kind == 'x' || kind == 'u' || kind == 'U') {
        const std::size_t count = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
        out += from_digits(text.substr(i + 1, count), count, 16);
        i += count;
      } else if (kind >= '0' && kind <= '7') {
        std::size_t count = 1;
        while (count < 3 && i + count < text.size() && text[i + count] >= '0' && text[i + count] <= '7')
          ++count;
        out += from_digits(text.substr(i, count), count, 8);
        i += count - 1;
      } else if (kind == 'N' || static_cast<unsigned char>(kind) >= 0x80) {
        throw Trouble("the escape '\\" + std::string(text.substr(i, first_character(text.substr(i)).length)) +
                      "' in a string is not supported");
      } else if (kind != '\n') {  // an escaped line end is none
        out += '\\';
        out += kind;
      }
    }
    return out;
  }

  static std::string from_digits(std::string_view digits, std::size_t count, unsigned base) {
    char32_t code = 0;
    for (const char c : digits) {
      const char small = to_lower(c);
      const unsigned value = is_digit(c)                    ? static_cast<unsigned>(c - '0')
                             : small >= 'a' && small <= 'f' ? static_cast<unsigned>(small - 'a') + 10
                                                            : 99;
      if (value >= base) throw Trouble("an escape in a string has too few digits");
      code = code * base + value;
    }
    if (digits.size() != count) throw Trouble("an escape in a string has too few digits");
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      throw Trouble("an escape in a string is no character");
    std::string out;
    unicode::append_utf8(code, out);
    return out;
  }

  std::string_view read_operator() {
    constexpr std::array<std::string_view, 26> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto* const found =
        std::ranges::find_if(kOperators, [this](std::string_view text) { return rest().starts_with(text); });
    if (found == kOperators.end())
      throw Trouble("found " + quote_text(rest().substr(0, first_character(rest()).length)) + " in a tag");
    add(Token::Kind::kOperator, std::string(*found));
    move(found->size());
    return *found;
  }

  std::string_view source_;
  unsigned& line_;
  std::size_t at_ = 0;
  bool line_begins_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> read_tokens(std::string_view source, unsigned& line) {
  line = 1;
  if (!is_utf8(source)) throw Trouble("it is no UTF-8");
  const std::string lines = normal_lines(source);
  return Lexer(lines, line).read();
}

}  // namespace crumb::text::chat

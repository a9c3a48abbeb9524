#include "report/escape.h"

#include <cstdio>

#include "base/files/text.h"
#include "base/utf8.h"

namespace crumb::report {
namespace {

bool is_misleading(char32_t code) {
  const bool turns = code == 0x61C || code == 0x200E || code == 0x200F ||
                     (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  const bool is_line = code == 0x2028 || code == 0x2029;
  const bool is_none = (code & 0xFFFE) == 0xFFFE || (code >= 0xFDD0 && code <= 0xFDEF);
  return turns || is_line || is_none;
}

std::string spelled(char32_t code) {
  char text[16];
  std::snprintf(text, sizeof text, "\\u{%04X}", static_cast<unsigned>(code));
  return text;
}

}  // namespace

std::string visible(std::string_view text, bool keeps_lines) {
  std::string safe;
  while (!text.empty()) {
    const Utf8Character next = first_character(text);
    const std::string_view bytes = text.substr(0, next.length);
    text.remove_prefix(next.length);
    if (next.sound && is_misleading(next.code))
      safe += spelled(next.code);
    else if (keeps_lines && (bytes == "\n" || bytes == "\t"))
      safe += bytes;
    else
      safe += printable(bytes);
  }
  return safe;
}

std::string html(std::string_view text, bool keeps_lines) {
  std::string safe;
  for (const char c : visible(text, keeps_lines)) {
    switch (c) {
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '&': safe += "&amp;"; break;
      case '"': safe += "&quot;"; break;
      case '\'': safe += "&#39;"; break;
      default: safe += c;
    }
  }
  return safe;
}

std::string markdown(std::string_view text) {
  constexpr std::string_view kMarkup = "\\`*_[]<>|&~$@";
  const std::string shown = visible(text);
  std::string safe;
  bool has_begun = false;  // behind more than digits
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const char c = shown[i];
    const std::string_view rest = std::string_view(shown).substr(i + 1);
    const bool ends = rest.empty() || rest.front() == ' ';
    // At the beginning of a line: lists, titles, lines under titles and across the page.
    const bool is_list =
        ((c == '.' || c == ')') && i > 0 && ends) || ((c == '-' || c == '+') && (ends || rest.front() == c));
    const bool begins = !has_begun && (is_list || c == '#' || c == '=');
    const bool is_link = c == ':' && rest.starts_with("//");
    if (kMarkup.find(c) != std::string_view::npos || begins || is_link) safe += '\\';
    safe += c;
    has_begun = has_begun || !((c >= '0' && c <= '9') || c == ' ');
  }
  return safe;
}

}  // namespace crumb::report

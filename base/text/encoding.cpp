#include "base/text/encoding.h"

#include <algorithm>
#include <array>

#include "base/files/counted.h"
#include "base/files/text.h"

namespace crumb {
namespace {

constexpr std::size_t kLooked = std::size_t{1} << 20;  // bytes that tell 16-bit units from 8-bit ones

/// Returns the encoding by the byte order mark at the text's start; empty where there is none.
std::string marked(std::string_view text) {
  using namespace std::string_view_literals;
  constexpr std::array<std::pair<std::string_view, const char*>, 4> kMarks = {{{"\xFF\xFE\0\0"sv, "UTF-32"},
                                                                               {"\0\0\xFE\xFF"sv, "UTF-32"},
                                                                               {"\xFF\xFE"sv, "UTF-16"},
                                                                               {"\xFE\xFF"sv, "UTF-16"}}};
  for (const auto& [mark, name] : kMarks)
    if (text.starts_with(mark)) return name;
  return "";
}

/// Returns the encoding by zero bytes at every other offset, which ASCII letters have.
std::string unmarked(std::string_view text) {
  const std::string_view start = text.substr(0, kLooked);
  std::array<std::size_t, 2> zeros{};
  for (std::size_t i = 0; i < start.size(); ++i) zeros[i % 2] += start[i] == '\0' ? 1 : 0;
  const std::size_t many = start.size() / 4 + 1;
  if (zeros[1] >= many && 4 * zeros[0] < zeros[1]) return "UTF-16LE";
  if (zeros[0] >= many && 4 * zeros[1] < zeros[0]) return "UTF-16BE";
  return "";
}

}  // namespace

std::optional<ForeignText> find_foreign_text(std::string_view text) {
  std::string wide = marked(text);
  if (wide.empty()) wide = unmarked(text);
  if (!wide.empty()) return ForeignText{.looks_like = std::move(wide), .wide = true};
  ForeignText found;
  std::uint64_t controls = 0;
  bool windows = false, none = false;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t length = utf8_character(rest);
    if (length == 1) {
      const auto c = static_cast<unsigned char>(rest.front());
      controls += c < 9 || (c > 13 && c < 32 && c != 27) ? 1 : 0;
    } else if (length == 0) {
      const auto byte = static_cast<unsigned char>(rest.front());
      ++found.bytes;
      windows = windows || byte < 0xA0;
      none = none || byte == 0x81 || byte == 0x8D || byte == 0x8F || byte == 0x90 || byte == 0x9D;
    }
    rest.remove_prefix(std::max<std::size_t>(length, 1));
  }
  if (found.bytes == 0) return std::nullopt;
  if (!none && controls * 100 <= text.size()) found.looks_like = windows ? "WINDOWS-1252" : "ISO-8859-1";
  return found;
}

std::string foreign_text_message(const ForeignText& text) {
  const std::string how = text.looks_like.empty()
                              ? "; it looks like no text"
                              : "; it looks like " + text.looks_like +
                                    (text.looks_like == "ISO-8859-1" ? " (Latin-1)" : "") + ": iconv -f " +
                                    text.looks_like + " -t UTF-8 makes UTF-8 of it";
  if (text.wide) return "is not UTF-8" + how;
  return "holds " + count_text(text.bytes, "byte") +
         (text.bytes == 1 ? " that is not UTF-8" : " that are not UTF-8") + how;
}

}  // namespace crumb

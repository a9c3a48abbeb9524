#include "jobs/samples/read_lines.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "base/text/encoding.h"

namespace crumb::jobs {
namespace {

constexpr uint64_t kMostTextBytes = uint64_t{4} << 30;

/// Throws Error where a line is not UTF-8.
void check_utf8(const std::string& path, const std::string& text, const std::vector<std::string>& lines) {
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string_view rest = lines[i];
    while (!rest.empty()) {
      const size_t length = utf8_character(rest);
      if (length == 0) {
        const std::optional<ForeignText> found = find_foreign_text(text);
        throw Error(quote_text(path) + " line " + std::to_string(i + 1) + ": found the byte " +
                    quote_text(rest.substr(0, 1)) + ", expected UTF-8" +
                    (found ? "; the file " + foreign_text_message(*found) : ""));
      }
      rest.remove_prefix(length);
    }
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(std::move(line));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

std::vector<std::string> read_lines(const std::string& path) {
  const std::string text = read_text_file(path, kMostTextBytes).take();
  std::vector<std::string> lines = lines_of(text);
  check_utf8(path, text, lines);
  return lines;
}

std::vector<runtime::TextPair> read_pairs(const std::string& path) {
  return as_pairs(read_lines(path), path);
}

std::vector<runtime::TextPair> as_pairs(const std::vector<std::string>& lines, const std::string& path) {
  std::vector<runtime::TextPair> pairs;
  for (const std::string& line : lines) {
    const auto tabs = std::ranges::count(line, '\t');
    if (tabs != 1)
      throw Error(quote_text(path) + " line " + std::to_string(pairs.size() + 1) + ": found " +
                  count_text(static_cast<std::size_t>(tabs), "tab") +
                  ", expected two texts with one tab between them");
    const std::size_t tab = line.find('\t');
    pairs.push_back({.first = line.substr(0, tab), .second = line.substr(tab + 1)});
  }
  return pairs;
}

}  // namespace crumb::jobs

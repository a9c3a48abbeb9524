#include "base/csv/number_table.h"

#include <cmath>
#include <optional>
#include <span>
#include <string>

#include "base/files/counted.h"
#include "base/files/inflate.h"
#include "base/files/input_file.h"
#include "base/files/text.h"
#include "base/text/number.h"

namespace crumb {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 16;

bool looks_like_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

/// Decompresses one whole gzip member.
Result<std::string> gunzip(std::string_view bytes) {
  Inflater inflater(Inflater::Stream::kGzip);
  std::span<const std::byte> left = std::as_bytes(std::span(bytes));
  std::string text;
  for (bool ended = false; !ended;) {
    const std::size_t before = text.size();
    if (before > kMostTableBytes)
      return Failure{"found more than " + byte_text(kMostTableBytes) + " of text"};
    text.resize(before + kChunk);
    const auto step = inflater.step(left, std::as_writable_bytes(std::span(text).subspan(before)));
    if (!step.ok()) return step.failure();
    left = left.subspan(step.value().consumed);
    text.resize(before + step.value().produced);
    ended = step.value().ended;
    const bool stuck = step.value().produced < kChunk;
    if (!ended && stuck) return Failure{"the compressed data are cut short"};
  }
  if (!left.empty()) return Failure{"found bytes behind the compressed data"};
  return text;
}

/// Reads one line's numbers. Returns how many, or what is wrong.
Result<std::size_t> parse_line(std::string_view line, std::vector<double>& values) {
  std::size_t count = 0;
  for (std::size_t begin = 0; begin <= line.size(); ++count) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    const std::string_view cell = line.substr(begin, end - begin);
    const auto value = parse_number<double>(cell);
    if (!value || !std::isfinite(*value)) return Failure{"expected a number, found " + quote_text(cell)};
    values.push_back(*value);
    begin = end + 1;
  }
  return count;
}

}  // namespace

Result<NumberTable> parse_number_table(std::string_view text) {
  NumberTable table;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  std::size_t number = 1;
  for (std::size_t begin = 0; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    begin = end + 1;
    const Result<std::size_t> count = parse_line(line, table.values);
    const std::string prefix = "line " + std::to_string(number) + ": ";
    if (!count.ok()) return Failure{prefix + count.failure().message};
    if (number == 1) table.columns = count.value();
    if (count.value() != table.columns) {
      return Failure{prefix + "found " + count_text(count.value(), "number") + ", expected " +
                     std::to_string(table.columns) + " as in line 1"};
    }
  }
  if (table.columns == 0) return Failure{"found no number"};
  return table;
}

Result<NumberTable> read_number_table(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& message) {
    return Failure{quote_text(path.string()) + ": " + message};
  };
  Result<InputFile> file = InputFile::open(path);
  if (!file.ok()) return file.failure();
  if (file.value().size() > kMostTableBytes) {
    return fail("found " + byte_text(file.value().size()) + ", expected at most " +
                byte_text(kMostTableBytes));
  }
  std::string bytes(file.value().size(), '\0');
  const Status read = file.value().read(0, std::as_writable_bytes(std::span(bytes)));
  if (!read.ok()) return read.failure();
  if (looks_like_gzip(bytes)) {
    Result<std::string> text = gunzip(bytes);
    if (!text.ok()) return fail(text.failure().message);
    bytes = std::move(text.value());
  }
  Result<NumberTable> table = parse_number_table(bytes);
  if (!table.ok()) return fail(table.failure().message);
  return table;
}

}  // namespace crumb

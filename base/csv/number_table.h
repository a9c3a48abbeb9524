// Tables of numbers as text: CSV, one row a line, plain or compressed by gzip.
//
// Numbers are decimal ("3", "-0.5", "1e3") and separated by commas; every line has as many as the first.
// Empty lines at the end and carriage returns are ignored. No header, no quotes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace crumb {

struct NumberTable {
  std::size_t columns = 0;
  std::vector<double> values;  ///< row by row

  std::size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
};

/// The most bytes of text in a table.
inline constexpr std::size_t kMostTableBytes = std::size_t{1} << 28;

/// Returns the table. A Failure names the line, what was found and what was expected.
Result<NumberTable> parse_number_table(std::string_view text);

/// Reads a file, decompressed where it begins as gzip files do; at most kMostTableBytes of text. The message
/// of a Failure begins with the path.
Result<NumberTable> read_number_table(const std::filesystem::path& path);

}  // namespace crumb

#include "cli/output.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "base/files/text.h"

namespace crumb::cli {
namespace {

std::string rate_text(double mb) { return fixed(mb, mb < 10 ? 2 : 0) + " MB/s"; }

/// Whether a cell is a number, with or without a unit; columns of numbers are set flush right.
bool is_numeric(const std::string& cell) {
  const size_t digit = cell.find_first_not_of("+-");
  return cell == "inf" || cell == "-inf" || cell == "nan" ||
         (digit != std::string::npos && std::isdigit(static_cast<unsigned char>(cell[digit])) &&
          cell.find_first_of(",:=") == std::string::npos);
}

}  // namespace

void print_json(const Json& json) {
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

std::string megabytes(uint64_t bytes) { return fixed(static_cast<double>(bytes) / 1e6, 2) + " MB"; }

std::string short_bytes(uint64_t bytes) {
  if (bytes < 1'000) return std::to_string(bytes) + " bytes";
  return bytes < 1'000'000 ? fixed(static_cast<double>(bytes) / 1e3, 1) + " kB" : megabytes(bytes);
}

void print_table(std::vector<std::vector<std::string>> rows) {
  for (auto& row : rows)
    for (std::string& cell : row) cell = printable(cell);
  std::vector<size_t> widths;
  std::vector<bool> numeric;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    numeric.resize(widths.size(), true);
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
      if (&row != &rows.front()) numeric[i] = numeric[i] && is_numeric(row[i]);
    }
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      line += (i ? "  " : "") + (numeric[i] ? space + row[i] : row[i] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::cout << line << "\n";
  }
}

Progress::Progress(std::string what, std::string items, size_t total_items, uint64_t total_bytes)
    : what_(std::move(what)),
      items_(std::move(items)),
      total_items_(total_items),
      total_bytes_(total_bytes) {}

void Progress::update(size_t items, uint64_t bytes) {
  if (!line_.is_due()) return;
  ProgressState state{
      .what = what_,
      .done = items,
      .total = total_items_,
      .items = items_,
      .share = static_cast<double>(items) / static_cast<double>(std::max<size_t>(total_items_, 1)),
      .seconds = line_.seconds()};
  if (total_bytes_ > 0) {
    state.share = static_cast<double>(bytes) / static_cast<double>(total_bytes_);
    state.details = megabytes(bytes) + " of " + megabytes(total_bytes_);
    state.rate = rate_text(static_cast<double>(bytes) / 1e6 / std::max(state.seconds, 1e-9));
  }
  line_.show(state);
}

void Progress::show(ProgressState state, bool now) {
  if (!now && !line_.is_due()) return;
  if (state.seconds <= 0) state.seconds = line_.seconds();
  line_.show(state);
}

}  // namespace crumb::cli

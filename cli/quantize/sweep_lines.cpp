#include "cli/quantize/sweep_lines.h"

#include <algorithm>
#include <iostream>

#include "base/files/text.h"
#include "cli/output.h"

namespace crumb::cli {
namespace {

/// Returns a row's cells for printing: notes go to the last column; an error is not cut.
std::vector<std::string> shown(const eval::GridTable& table, std::size_t row) {
  constexpr std::size_t kMostLetters = 60;
  std::vector<std::string> cells = eval::cells_of(table, row);
  std::string& note = cells.back();
  if (!table.rows[row].failed && note.size() > kMostLetters) note = note.substr(0, kMostLetters) + "...";
  return cells;
}

}  // namespace

RowLines::RowLines(const std::vector<jobs::SweepCell>& cells, const eval::GridTable& head) {
  constexpr std::size_t kNarrowest = 7;
  const std::vector<std::string> heads = eval::heads_of(head);
  for (const std::string& cell : heads) widths_.push_back(std::max(cell.size(), kNarrowest));
  for (const jobs::SweepCell& cell : cells) {
    const std::string* words[] = {&cell.format, &cell.activations, &cell.method};
    for (std::size_t i = 0; i < std::size(words); ++i)
      widths_[i + 1] = std::max(widths_[i + 1], words[i]->size());
  }
  print(heads);
}

void RowLines::print(const eval::GridTable& table, std::size_t row) const { print(shown(table, row)); }

/// Prints the cells without the first, which says what is on the front: that is not known yet.
void RowLines::print(const std::vector<std::string>& cells) const {
  std::string line;
  for (std::size_t i = 1; i < cells.size(); ++i) {
    line += printable(cells[i]);
    if (i + 1 < cells.size() && cells[i].size() < widths_[i]) line.append(widths_[i] - cells[i].size(), ' ');
    line += "  ";
  }
  std::cout << line.substr(0, line.find_last_not_of(' ') + 1) << "\n" << std::flush;
}

void print_grid(const eval::GridTable& table) {
  std::vector<std::vector<std::string>> cells{eval::heads_of(table)};
  for (std::size_t i = 0; i < table.rows.size(); ++i) cells.push_back(shown(table, i));
  print_table(std::move(cells));
  std::cout << "*: none that has as few " << table.cost.axis << " is better in " << table.metric.name << "\n";
}

}  // namespace crumb::cli

// How many symbols of a text are wrong.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace crumb::eval {

/// The least number of symbols to insert, delete or replace that makes one list the other (Levenshtein).
template <class Symbol>
std::size_t count_edits(const std::vector<Symbol>& from, const std::vector<Symbol>& to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (const Symbol& symbol : from) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (symbol == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min(replaced, std::min(row[j], row[j + 1]) + 1);
    }
  }
  return row.back();
}

}  // namespace crumb::eval

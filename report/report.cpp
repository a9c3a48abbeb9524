#include "report/report.h"

#include <algorithm>

namespace crumb::report {

Table without_empty_columns(const Table& table) {
  Table made{.key = table.key, .title = table.title, .note = table.note};
  made.rows.resize(table.rows.size());
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const bool is_known = i == 0 || std::ranges::any_of(table.rows, [&](const std::vector<Cell>& row) {
                            return !row[i].text.empty();
                          });
    if (!is_known) continue;
    made.columns.push_back(table.columns[i]);
    for (std::size_t j = 0; j < table.rows.size(); ++j) made.rows[j].push_back(table.rows[j][i]);
  }
  return made;
}

}  // namespace crumb::report

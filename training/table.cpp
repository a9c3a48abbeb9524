#include "training/table.h"

#include <algorithm>
#include <cstdio>

#include "base/files/write_text_file.h"
#include "base/text/fixed.h"

namespace crumb::training {
namespace {

template <class T, class F>
std::vector<T> distinct(const std::vector<SweepCell>& cells, F what) {
  std::vector<T> found;
  for (const SweepCell& cell : cells) {
    if (std::ranges::find(found, what(cell)) == found.end()) found.push_back(what(cell));
  }
  return found;
}

std::string cell_text(const SweepCell& cell) {
  std::string text = fixed(cell.mean, 4);
  if (cell.seeds > 1) text += " (" + fixed(cell.least, 4) + " to " + fixed(cell.greatest, 4) + ")";
  return cell.widths.empty() ? text : text + " " + cell.widths;
}

std::string cost_text(const SweepCell& cell) {
  if (!cell.cost) return "";
  return fixed(cell.cost->bops, 0) + " (" + fixed(100 * cell.cost->sparsity, 1) + " %)";
}

/// A row for each x, a column for each series.
template <class F>
std::vector<std::vector<std::string>> matrix_of(const SweepTable& table, F text) {
  const auto series = distinct<std::string>(table.cells, [](const SweepCell& cell) { return cell.series; });
  const auto labels = distinct<std::string>(table.cells, [](const SweepCell& cell) { return cell.label; });
  std::vector<std::vector<std::string>> rows(1);
  rows[0].push_back(table.axis);
  rows[0].insert(rows[0].end(), series.begin(), series.end());
  for (const std::string& label : labels) {
    std::vector<std::string> row{label};
    for (const std::string& one : series) {
      const auto cell = std::ranges::find_if(
          table.cells, [&](const SweepCell& any) { return any.series == one && any.label == label; });
      row.push_back(cell == table.cells.end() ? "-" : text(*cell));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

NetworkCost& operator+=(NetworkCost& sum, const NetworkCost& other) {
  sum.sparsity += other.sparsity;
  sum.bops += other.bops;
  sum.bops_dense += other.bops_dense;
  return sum;
}

Json cost_json(const NetworkCost& cost) {
  return {{"sparsity", cost.sparsity},
          {"bops", json_amount(cost.bops)},
          {"bops_dense", json_amount(cost.bops_dense)}};
}

/// Whose table the sweep's is a miniature of, and what makes it one, as the task says.
std::string miniature_of(const SweepGrid& grid, const Json& report) {
  const std::string of_task = report.value("miniature_of", "");
  const std::size_t why = of_task.find(" (miniature");
  return grid.stands_for.empty() || why == std::string::npos ? of_task
                                                             : grid.stands_for + of_task.substr(why);
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

}  // namespace

SweepTable table_of(const SweepGrid& grid, const std::vector<Json>& reports) {
  SweepTable table{.title = grid.title,
                   .axis = grid.axis,
                   .task = grid.points.at(0).request.task,
                   .network = reports.at(0).at("network"),
                   .metric = reports.at(0).at("metric"),
                   .miniature_of = miniature_of(grid, reports.at(0)),
                   .references = references_of(reports),
                   .cells = {},
                   .values = values_of(grid, reports)};
  table.cells = cells_of(table.values);
  return table;
}

void write_table(const SweepTable& table, const std::filesystem::path& folder) {
  write_text_file(folder / "sweep.json", json_of(table).dump(2) + "\n");
  write_text_file(folder / "sweep.csv", csv_of(table));
  write_text_file(folder / "sweep.svg", svg_of(table));
}

std::vector<SweepCell> cells_of(const std::vector<SweepValue>& values) {
  std::vector<SweepCell> cells;
  for (const SweepValue& value : values) {
    auto found = std::ranges::find_if(cells, [&](const SweepCell& cell) {
      return cell.series == value.series && cell.label == value.label;
    });
    if (found == cells.end()) {
      cells.push_back({.series = value.series,
                       .label = value.label,
                       .x = value.x,
                       .least = value.metric,
                       .greatest = value.metric,
                       .widths = value.widths});
      found = cells.end() - 1;
    }
    found->mean += value.metric;
    found->least = std::min(found->least, value.metric);
    found->greatest = std::max(found->greatest, value.metric);
    ++found->seeds;
    if (value.cost && !found->cost) found->cost.emplace();
    if (value.cost) *found->cost += *value.cost;
  }
  for (SweepCell& cell : cells) {
    cell.mean /= cell.seeds;
    if (!cell.cost) continue;
    cell.cost->sparsity /= cell.seeds;
    cell.cost->bops /= cell.seeds;
    cell.cost->bops_dense /= cell.seeds;
  }
  return cells;
}

std::vector<std::vector<std::string>> rows_of(const SweepTable& table) { return matrix_of(table, cell_text); }

bool has_costs(const SweepTable& table) {
  return std::ranges::any_of(table.cells, [](const SweepCell& cell) { return cell.cost.has_value(); });
}

std::vector<std::vector<std::string>> cost_rows_of(const SweepTable& table) {
  return matrix_of(table, cost_text);
}

Json json_of(const SweepTable& table) {
  Json json{{"sweep", table.title},
            {"task", table.task},
            {"network", table.network},
            {"metric", table.metric},
            {"miniature_of", table.miniature_of},
            {"compared_with", json_of(table.references)},
            {"axis", table.axis},
            {"table", Json::array()},
            {"points", Json::array()}};
  for (const SweepCell& cell : table.cells) {
    json["table"].push_back({{"series", cell.series},
                             {"at", cell.label},
                             {"mean", cell.mean},
                             {"least", cell.least},
                             {"greatest", cell.greatest},
                             {"seeds", cell.seeds}});
    if (cell.cost) json["table"].back().update(cost_json(*cell.cost));
    if (!cell.widths.empty()) json["table"].back()["widths"] = cell.widths;
  }
  for (const SweepValue& value : table.values) {
    json["points"].push_back(
        {{"series", value.series}, {"at", value.label}, {"seed", value.seed}, {table.metric, value.metric}});
    if (value.cost) json["points"].back().update(cost_json(*value.cost));
    if (!value.widths.empty()) json["points"].back()["widths"] = value.widths;
  }
  return json;
}

std::string csv_of(const SweepTable& table) {
  const auto quoted = [](const std::string& text) { return "\"" + text + "\""; };
  const bool costs = has_costs(table);
  const bool widths =
      std::ranges::any_of(table.values, [](const SweepValue& one) { return !one.widths.empty(); });
  std::string text = "series,at,seed," + quoted(table.metric) + (costs ? ",sparsity,bops,bops_dense" : "") +
                     (widths ? ",widths\n" : "\n");
  for (const SweepValue& value : table.values) {
    text += quoted(value.series) + "," + value.label + "," + std::to_string(value.seed) + "," +
            number_text(value.metric);
    if (costs) {
      const NetworkCost cost = value.cost.value_or(NetworkCost());
      text += "," + number_text(cost.sparsity) + "," + number_text(cost.bops) + "," +
              number_text(cost.bops_dense);
    }
    if (widths) text += "," + value.widths;
    text += '\n';
  }
  return text;
}

}  // namespace crumb::training

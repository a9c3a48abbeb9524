#include "jobs/report/sweep_page.h"

#include <algorithm>
#include <cmath>

#include "base/files/counted.h"
#include "base/text/fixed.h"
#include "jobs/report/page_parts.h"
#include "report/numbers.h"

namespace crumb::jobs {
namespace {

using eval::GridRow;
using eval::GridTable;
using report::Cell;
using report::Table;

std::string name_of(const GridRow& row) {
  std::string name = row.format;
  if (row.activations != "keep") name += ", activations " + row.activations;
  return name + ", " + row.method;
}

report::Chart chart_of(const GridTable& table) {
  report::Chart chart{.title = "Quality against size",
                      .x = std::string(table.cost.axis),
                      .y = std::string(table.metric.axis)};
  for (std::size_t i = 1; i < table.rows.size(); ++i) {
    const GridRow& row = table.rows[i];
    const auto x = row.cost(table.cost), y = row.score(table.metric);
    if (!x || !y || !std::isfinite(*x) || !std::isfinite(*y)) continue;
    chart.points.push_back(
        {.name = name_of(row), .series = row.method, .x = *x, .y = *y, .is_on_front = table.front[i]});
  }
  const auto of_float = table.rows.front().score(table.metric);
  if (of_float && std::isfinite(*of_float)) {
    chart.level = of_float;
    chart.level_name = "float";
  }
  return chart;
}

Table grid_of(const GridTable& table) {
  Table made{.key = "grid",
             .title = "The grid",
             .note = "On the front: no other row is better both in " + std::string(table.metric.name) +
                     " and " + std::string(table.cost.name) + ".",
             .columns = {{"format", "format"}, {"activations", "activations"}, {"method", "method"}}};
  std::vector<const eval::Metric*> metrics;
  for (const eval::Metric& metric : eval::metrics())
    if (std::ranges::any_of(table.rows, [&](const GridRow& row) { return row.score(metric).has_value(); })) {
      metrics.push_back(&metric);
      made.columns.push_back({std::string(metric.name), std::string(metric.name), true});
    }
  for (const auto& [key, head] : {std::pair("bits", "bits a weight"),
                                  {"bytes", "size"},
                                  {"accumulator_by_types", "accumulator bits, by types"},
                                  {"accumulator_by_weights", "by weights"},
                                  {"accumulator_exact", "exact"},
                                  {"bops", "bit operations"}})
    made.columns.push_back({key, head, true});
  made.columns.push_back({"front", "on the front"});
  made.columns.push_back({"note", "note"});
  const auto number = [](const auto& value, int digits) {
    return value ? number_cell(static_cast<double>(*value), digits) : Cell();
  };
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const GridRow& row = table.rows[i];
    std::vector<Cell> cells{Cell(row.format), Cell(row.activations), Cell(row.method)};
    for (const eval::Metric* metric : metrics) cells.push_back(number(row.score(*metric), metric->digits));
    cells.push_back(number(row.bits, 3));
    cells.push_back(row.bytes ? bytes_cell(*row.bytes) : Cell());
    cells.push_back(number(row.accumulator.by_types, 0));
    cells.push_back(number(row.accumulator.by_weights, 0));
    cells.push_back(number(row.accumulator.exact, 0));
    cells.push_back(number(row.bops, 0));
    cells.emplace_back(table.front[i] ? "yes" : "");
    cells.emplace_back(row.failed ? "failed: " + row.note : row.note);
    made.rows.push_back(std::move(cells));
  }
  return made;
}

}  // namespace

report::Report page_of(const SweepRequest& request, const GridTable& table) {
  report::Report page = begin_page(
      "sweep", count_text(request.cells.size(), "way") + " to quantize " + file_name(request.input),
      request.report);
  const auto of_float = table.rows.front().score(table.metric);
  const auto number = [&](double value) { return fixed(value, table.metric.digits); };
  const GridRow* best = nullptr;
  for (std::size_t i = 1; i < table.rows.size(); ++i) {
    const GridRow& row = table.rows[i];
    const auto score = row.score(table.metric);
    if (!score || !table.front[i]) continue;
    const auto cost = row.cost(table.cost);
    page.summary.push_back({name_of(row), number_cell(*score, table.metric.digits),
                            std::string(table.metric.name) + ", at " +
                                (cost ? report::short_number(*cost) : "?") + " " +
                                std::string(table.cost.name)});
    const bool is_better = !best || (table.metric.more_is_better ? *score > *best->score(table.metric)
                                                                 : *score < *best->score(table.metric));
    if (is_better) best = &row;
  }
  if (best)
    page.sentence = "Best is " + name_of(*best) + ", with " + std::string(table.metric.name) + " " +
                    number(*best->score(table.metric)) +
                    (of_float ? " where the float network has " + number(*of_float) : "") + ".";
  const auto failed = static_cast<std::uint64_t>(std::ranges::count_if(table.rows, &GridRow::failed));
  if (failed > 0) page.notes.push_back(count_text(failed, "row") + " could not be done; the table says why.");
  page.charts.push_back(chart_of(table));
  page.tables.push_back(grid_of(table));
  if (!request.device.empty()) page.made_with.emplace_back("device", request.device);
  return page;
}

}  // namespace crumb::jobs

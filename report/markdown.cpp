// A report as GitHub's Markdown. Charts and histograms are drawings, and are left to the page; their figures are in
// its tables and in the JSON.
#include <algorithm>

#include "report/escape.h"
#include "report/numbers.h"
#include "report/write.h"

namespace crumb::report {
namespace {

std::string fact_of(const Fact& fact) {
  return "- " + markdown(fact.name) + ": **" + markdown(fact.value.text.empty() ? "-" : fact.value.text) +
         "**" + (fact.note.empty() ? "" : " (" + markdown(fact.note) + ")") + "\n";
}

/// With as many backticks around it as its own ones need.
std::string fenced(const std::string& text) {
  std::size_t longest = 2, run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`'), shown = visible(text, true);
  return fence + "\n" + shown + (shown.ends_with('\n') ? "" : "\n") + fence + "\n";
}

std::string row_of(const std::vector<std::string>& cells) {
  std::string made = "|";
  for (const std::string& cell : cells) made += " " + cell + " |";
  return made + "\n";
}

std::string lines_of_table(const Table& whole) {
  const Table table = without_empty_columns(whole);
  std::string made = "\n## " + markdown(table.title) + "\n\n";
  if (!table.note.empty()) made += markdown(table.note) + "\n\n";
  std::vector<std::string> heads, lines;
  for (const Column& column : table.columns) {
    heads.push_back(markdown(column.head));
    lines.emplace_back(column.is_number ? "---:" : "---");
  }
  made += row_of(heads) + row_of(lines);
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string> cells;
    for (const Cell& cell : row) cells.push_back(markdown(cell.text));
    made += row_of(cells);
  }
  return made;
}

std::string lines_of_chart(const Chart& chart) {
  Table table{.title = chart.title,
              .columns = {{.head = "model"},
                          {.head = chart.x, .is_number = true},
                          {.head = chart.y, .is_number = true},
                          {.head = "95 % from", .is_number = true},
                          {.head = "to", .is_number = true}}};
  const auto number = [](const std::optional<double>& value) {
    return Cell(value ? short_number(*value) : "");
  };
  for (const Point& point : chart.points)
    table.rows.push_back(
        {Cell(point.name), number(point.x), number(point.y), number(point.low), number(point.high)});
  return lines_of_table(table);
}

std::string lines_of_samples(const Report& report) {
  if (report.samples.empty()) return "";
  std::string made = "\n## Samples that went wrong\n\n";
  if (!report.samples_note.empty()) made += markdown(report.samples_note) + "\n\n";
  for (const Sample& sample : report.samples) {
    made += "- " + markdown(sample.model) + ", sample " + std::to_string(sample.number) + ":";
    for (std::size_t i = 0; i < sample.facts.size(); ++i)
      made +=
          (i > 0 ? ", " : " ") + markdown(sample.facts[i].name) + " " + markdown(sample.facts[i].value.text);
    if (!sample.text.empty()) made += " - " + markdown(sample.text);
    made += '\n';
  }
  return made;
}

}  // namespace

std::string markdown_of(const Report& report) {
  std::string made = "# " + markdown(report.title) + "\n\n";
  if (!report.sentence.empty()) made += markdown(report.sentence) + "\n\n";
  for (const Fact& fact : report.summary) made += fact_of(fact);
  if (!report.notes.empty()) made += '\n';
  for (const std::string& note : report.notes) made += "- note: " + markdown(note) + "\n";
  for (const Chart& chart : report.charts)
    if (!chart.is_of_lines) made += lines_of_chart(chart);
  for (const Table& table : report.tables) made += lines_of_table(table);
  made += lines_of_samples(report);
  if (!report.recipe.empty()) made += "\n## The recipe as it was carried out\n\n" + fenced(report.recipe);
  made += "\n## To repeat it\n\n";
  std::string commands;
  for (const std::string& command : report.commands) commands += command + "\n";
  if (!commands.empty()) made += fenced(commands) + "\n";
  for (const auto& [name, value] : report.made_with)
    made += "- " + markdown(name) + ": " + markdown(value) + "\n";
  return made;
}

}  // namespace crumb::report

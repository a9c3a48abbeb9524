// A report as a page. All that is not ours passes html() (escape.h), and the page's policy lets nothing run, load or
// be sent but its own script.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/files/counted.h"
#include "report/drawing.h"
#include "report/escape.h"
#include "report/numbers.h"
#include "report/picture.h"
#include "report/style.h"
#include "report/write.h"

namespace crumb::report {
namespace {

std::string name_of(const std::string& text) { return "<bdi>" + html(text) + "</bdi>"; }

/// A part of the page with a title, which the contents lead to.
struct Section {
  std::string id, title, body;
};

std::string facts_of(const std::vector<Fact>& facts) {
  std::string made = "<dl class=\"facts\">";
  for (const Fact& fact : facts) {
    made += "<div><dt>" + name_of(fact.name) + "</dt><dd><span class=\"value\">" + name_of(fact.value.text) +
            "</span>";
    if (!fact.note.empty()) made += " <span class=\"soft\">" + name_of(fact.note) + "</span>";
    made += "</dd></div>\n";
  }
  return made + "</dl>\n";
}

std::string head_of(const Column& column) {
  return std::string("<th scope=\"col\"") + (column.is_number ? " class=\"n\"" : "") +
         "><button type=\"button\">" + html(column.head) + "</button></th>";
}

std::string cell_of(const Cell& cell, const Column& column, bool is_first) {
  if (is_first && !column.is_number) return "<th scope=\"row\">" + name_of(cell.text) + "</th>";
  constexpr std::size_t kLong = 60;
  if (!column.is_number)
    return (cell.text.size() > kLong ? "<td class=\"long\">" : "<td>") + std::string() +
           (cell.text.empty() ? "" : name_of(cell.text)) + "</td>";
  std::string value;
  if (cell.number && !is_plain_number(cell.text)) value = " data-v=\"" + script_number(*cell.number) + "\"";
  return "<td class=\"n\"" + value + ">" + html(cell.text) + "</td>";
}

std::string table_of(const Table& whole) {
  const Table table = without_empty_columns(whole);
  std::string made;
  if (!table.note.empty()) made += "<p class=\"soft\">" + html(table.note) + "</p>";
  const std::string id = "t-" + table.key;
  made += "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-labelledby=\"" + id +
          "\"><table><caption id=\"" + id + "\">" + html(table.title) + ": " +
          count_text(table.rows.size(), "row") +
          "<span class=\"hint\">; a column's name sorts by it</span></caption><thead><tr>";
  for (const Column& column : table.columns) made += head_of(column);
  made += "</tr></thead><tbody>\n";
  for (const std::vector<Cell>& row : table.rows) {
    made += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) made += cell_of(row[i], table.columns[i], i == 0);
    made += "</tr>\n";
  }
  return made + "</tbody></table></div>\n";
}

std::string figure_of(const Histogram& histogram, const std::string& kind, const std::string& layer) {
  const auto most = std::ranges::max_element(histogram.counts);
  const double width = (histogram.high - histogram.low) /
                       static_cast<double>(std::max<std::size_t>(histogram.counts.size(), 1));
  const auto place = static_cast<double>(most - histogram.counts.begin());
  const std::string at_most = short_number(histogram.low + (place + .5) * width);
  return "<figure class=\"" + kind + "\">" +
         svg_of(histogram, kind + " of " + layer + ", most at " + at_most) + "<figcaption><span>" +
         short_number(histogram.low) + "</span><span>" + kind + "</span><span>" +
         short_number(histogram.high) + "</span></figcaption></figure>";
}

std::string histograms_of(const Report& report) {
  const bool has_models = std::ranges::any_of(
      report.histograms, [&](const LayerHistograms& one) { return one.model != report.histograms[0].model; });
  std::string made =
      "<p class=\"soft\">How often each code is used, and each weight, from the least to the greatest, out "
      "of the "
      "file; the highest bar has the same height everywhere.</p><ul class=\"layers\">\n";
  for (const LayerHistograms& one : report.histograms) {
    made += "<li><h3>" + name_of(one.layer) + "</h3><p class=\"soft\">" +
            (has_models ? name_of(one.model) + ", " : "") + html(one.format);
    if (one.seen < one.all)
      made += ", " + std::to_string(one.seen) + " of " + std::to_string(one.all) + " weights";
    made += "</p>";
    if (one.codes) made += figure_of(*one.codes, "codes", one.layer);
    made += figure_of(one.values, "values", one.layer) + "</li>\n";
  }
  return made + "</ul>\n";
}

std::string sample_of(const Sample& sample, bool has_models) {
  const std::string number = std::to_string(sample.number);
  std::string made = "<li><h3>Sample " + number + (has_models ? ", " + name_of(sample.model) : "") + "</h3>";
  if (!sample.pictures.empty()) made += "<div class=\"pictures\">";
  for (const Picture& picture : sample.pictures)
    made += "<figure><img alt=\"" + html("Sample " + number + ", " + picture.caption) + "\" width=\"" +
            std::to_string(picture.width) + "\" height=\"" + std::to_string(picture.height) +
            "\" src=\"data:image/png;base64," + base64(png_of(picture)) + "\"><figcaption>" +
            name_of(picture.caption) + "</figcaption></figure>";
  if (!sample.pictures.empty()) made += "</div>";
  if (!sample.text.empty())
    made += "<blockquote tabindex=\"0\" dir=\"auto\">" + html(sample.text, true) + "</blockquote>";
  made += "<dl>";
  for (const Fact& fact : sample.facts)
    made += "<dt>" + name_of(fact.name) + "</dt><dd>" + name_of(fact.value.text) + "</dd>";
  return made + "</dl></li>\n";
}

std::string samples_of(const Report& report) {
  const bool has_models = std::ranges::any_of(
      report.samples, [&](const Sample& one) { return one.model != report.samples[0].model; });
  std::string made;
  if (!report.samples_note.empty()) made += "<p class=\"soft\">" + html(report.samples_note) + "</p>";
  made += "<ul class=\"samples\">\n";
  for (const Sample& sample : report.samples) made += sample_of(sample, has_models);
  return made + "</ul>\n";
}

std::string code_of(const std::string& text, const std::string& what) {
  return "<pre role=\"group\" tabindex=\"0\" aria-label=\"" + html(what) + "\">" + html(text, true) +
         "</pre>\n";
}

std::string again_of(const Report& report) {
  std::string commands;
  for (const std::string& command : report.commands) commands += (commands.empty() ? "" : "\n") + command;
  std::string made = commands.empty() ? "" : code_of(commands, "Commands");
  made += "<dl class=\"facts\">";
  for (const auto& [name, value] : report.made_with)
    made += "<div><dt>" + name_of(name) + "</dt><dd>" + name_of(value) + "</dd></div>\n";
  return made + "</dl>\n";
}

std::string charts_of(const Report& report) {
  std::string made;
  for (std::size_t i = 0; i < report.charts.size(); ++i) {
    if (report.charts.size() > 1) made += "<h3>" + html(report.charts[i].title) + "</h3>";
    made += svg_of(report.charts[i], "chart-" + std::to_string(i)) + "\n";
  }
  return made;
}

std::vector<Section> sections_of(const Report& report) {
  std::vector<Section> sections;
  std::string summary;
  if (!report.sentence.empty()) summary += "<p class=\"said\">" + name_of(report.sentence) + "</p>\n";
  summary += facts_of(report.summary);
  if (!report.notes.empty()) {
    summary += "<ul class=\"notes\">";
    for (const std::string& note : report.notes) summary += "<li>" + name_of(note) + "</li>";
    summary += "</ul>\n";
  }
  sections.push_back({"summary", "Summary", summary});
  if (!report.charts.empty()) sections.push_back({"charts", report.charts[0].title, charts_of(report)});
  for (const Table& table : report.tables) sections.push_back({table.key, table.title, table_of(table)});
  if (!report.samples.empty()) sections.push_back({"samples", "Samples that went wrong", samples_of(report)});
  if (!report.histograms.empty()) sections.push_back({"histograms", "Histograms", histograms_of(report)});
  if (!report.recipe.empty())
    sections.push_back({"recipe", "The recipe as it was carried out", code_of(report.recipe, "Recipe")});
  sections.push_back({"again", "To repeat it", again_of(report)});
  return sections;
}

}  // namespace

std::string html_of(const Report& report) {
  std::string page = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  page +=
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
      "'unsafe-inline'; script-src '" +
      std::string(kScriptHash) + "'; base-uri 'none'; form-action 'none'\">\n";
  page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  page +=
      "<meta name=\"generator\" content=\"crumb, report schema " + std::to_string(kReportSchema) + "\">\n";
  page += "<link rel=\"icon\" href=\"data:,\">\n";
  page += "<title>" + html(report.title) + "</title>\n<style>" + std::string(style()) +
          "</style>\n</head>\n<body>\n";
  page += "<a class=\"skip\" href=\"#summary\">To the summary</a>\n<header><h1>" + name_of(report.title) +
          "</h1>\n</header>\n";
  const std::vector<Section> sections = sections_of(report);
  page += "<nav aria-label=\"Contents\"><ul>";
  for (const Section& section : sections)
    page += "<li><a href=\"#" + section.id + "\">" + html(section.title) + "</a></li>";
  page += "</ul></nav>\n<main>\n";
  for (const Section& section : sections)
    page += "<section id=\"" + section.id + "\" aria-labelledby=\"h-" + section.id + "\"><h2 id=\"h-" +
            section.id + "\">" + html(section.title) + "</h2>\n" + section.body + "</section>\n";
  page += "</main>\n<footer><p>Written by crumb " + html(report.kind) +
          ". The page needs nothing else, and sends nothing.</p></footer>\n<script>" + std::string(script()) +
          "</script>\n</body>\n</html>\n";
  return page;
}

}  // namespace crumb::report

#include "jobs/report/training_page.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <system_error>

#include "base/files/counted.h"
#include "base/text/fixed.h"
#include "jobs/report/page_parts.h"
#include "jobs/report/stored_layers.h"
#include "report/numbers.h"

namespace crumb::jobs {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using report::Cell;
using report::Fact;
using report::Table;

/// A number of the report, or its text, or nothing.
Cell cell_of(const Json& value, int digits = -1) {
  if (value.is_number_integer()) return Cell(value.dump(), value.get<double>());
  if (value.is_number())
    return digits < 0 ? Cell(report::short_number(value.get<double>()), value.get<double>())
                      : number_cell(value.get<double>(), digits);
  if (value.is_string()) return Cell(value.get<std::string>());
  if (value.is_boolean()) return Cell(value.get<bool>() ? "yes" : "no");
  return {};
}

/// What a run measured of a network: a number, or an object with the metric's name.
Cell measure_of(const Json& training, const char* name) {
  const auto found = training.find(name);
  if (found == training.end()) return {};
  if (!found->is_object()) return cell_of(*found, 4);
  const auto inside = found->find(training.value("metric", ""));
  return inside == found->end() ? Cell() : cell_of(*inside, 4);
}

/// The networks that were compared, in the order in which they came about.
constexpr std::pair<const char*, const char*> kMeasured[] = {
    {"float", "float"},        {"float_longer", "float, as many epochs"}, {"rounded", "rounded"},
    {"start", "at the start"}, {"block_wise", "layer by layer"},          {"quantized", "trained"}};

void add_measures(const Json& training, report::Report& page) {
  Table table{.key = "networks",
              .title = "Networks",
              .columns = {{"network", "network"}, {"value", training.value("metric", "metric"), true}}};
  for (const auto& [key, name] : kMeasured)
    if (const Cell cell = measure_of(training, key); !cell.text.empty()) {
      table.rows.push_back({Cell(name), cell});
      page.summary.push_back({std::string(name), cell, training.value("metric", "")});
    }
  const auto references = training.find("references");
  if (references != training.end() && references->is_object())
    for (const auto& [name, value] : references->items())
      table.rows.push_back({Cell(name), cell_of(value, 4)});
  const Cell before = measure_of(training, "float"), after = measure_of(training, "quantized");
  if (!before.text.empty() && !after.text.empty())
    page.sentence = "The trained network has " + training.value("metric", "") + " " + after.text +
                    " where the float network has " + before.text + ".";
  if (!table.rows.empty()) page.tables.push_back(std::move(table));
}

/// Lists of objects in the report become tables, whatever they hold: their keys are the columns.
Table table_of(const std::string& key, const std::string& title, const Json& list) {
  Table table{.key = key, .title = title};
  std::vector<std::string> keys;
  for (const Json& row : list)
    for (const auto& [name, value] : row.items())
      if (std::ranges::find(keys, name) == keys.end() && !value.is_object()) keys.push_back(name);
  for (const std::string& name : keys) {
    const bool is_number = std::ranges::all_of(list, [&](const Json& row) {
      const auto found = row.find(name);
      return found == row.end() || found->is_null() || found->is_number();
    });
    std::string head = name;
    std::ranges::replace(head, '_', ' ');
    table.columns.push_back({name, head, is_number});
  }
  for (const Json& row : list) {
    std::vector<Cell> cells;
    for (const std::string& name : keys) {
      const auto found = row.find(name);
      if (found != row.end() && found->is_array())
        cells.emplace_back(found->dump(-1, ' ', false, Json::error_handler_t::replace));
      else
        cells.push_back(found == row.end() ? Cell() : cell_of(*found));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

void add_tables(const Json& training, report::Report& page) {
  const auto add = [&](const Json& holder, const char* key, const std::string& name,
                       const std::string& title) {
    const auto found = holder.find(key);
    const bool is_list =
        found != holder.end() && found->is_array() && !found->empty() && found->front().is_object();
    if (is_list) page.tables.push_back(table_of(name, title, *found));
  };
  add(training, "outputs", "outputs", "Outputs");
  add(training, "layers", "layers", "Layers, one after the other");
  add(training, "accumulator", "accumulators", "Accumulators");
  if (const auto widths = training.find("learned_bits"); widths != training.end())
    add(*widths, "layers", "widths", "Learned widths");
  if (const auto pruning = training.find("pruning"); pruning != training.end())
    add(*pruning, "layers", "pruning", "Zeros");
}

/// The losses of the folder's log, at most 300 of a phase at even distances.
void add_losses(const fs::path& log, report::Report& page) {
  constexpr std::size_t kMost = 300;
  std::ifstream file(log);
  std::vector<std::pair<std::string, std::vector<report::Point>>> phases;
  std::string x = "step";
  for (std::string line; std::getline(file, line);) {
    const Json entry = Json::parse(line, nullptr, false);
    if (!entry.is_object() || !entry.contains("loss") || !entry["loss"].is_number()) continue;
    const std::string phase = entry.contains("phase") ? cell_of(entry["phase"]).text : "loss";
    auto found = std::ranges::find(phases, phase, &std::pair<std::string, std::vector<report::Point>>::first);
    if (found == phases.end()) found = phases.insert(phases.end(), {phase, {}});
    if (entry.contains("epoch")) x = "epoch";
    const double at = entry.contains("epoch") && entry["epoch"].is_number() ? entry["epoch"].get<double>()
                      : entry.contains("step") && entry["step"].is_number()
                          ? entry["step"].get<double>()
                          : static_cast<double>(found->second.size());
    const double loss = entry["loss"].get<double>();
    if (std::isfinite(loss)) found->second.push_back({.name = phase, .series = phase, .x = at, .y = loss});
  }
  report::Chart chart{.title = "Losses", .x = x, .y = "loss", .is_of_lines = true};
  for (const auto& [phase, points] : phases) {
    if (points.size() < 2) continue;
    const std::size_t step = (points.size() + kMost - 1) / kMost;
    for (std::size_t i = 0; i < points.size(); i += step) chart.points.push_back(points[i]);
  }
  if (!chart.points.empty()) page.charts.push_back(std::move(chart));
}

/// What else the report says in a word or number.
void add_rest(const Json& training, report::Report& page) {
  for (const auto& item : training.items()) {
    const std::string& name = item.key();
    const Json& value = item.value();
    const bool is_measured =
        std::ranges::any_of(kMeasured, [&](const auto& one) { return name == one.first; });
    if (is_measured || name == "recipe" || name == "request" || name == "metric" || value.is_structured() ||
        value.is_null())
      continue;
    std::string head = name;
    std::ranges::replace(head, '_', ' ');
    page.made_with.emplace_back(head, cell_of(value).text);
  }
}

}  // namespace

report::Report training_page(const ReportFile& file, const std::string& verb, const Json& training,
                             const fs::path& folder) {
  report::Report page = begin_page(
      verb, file_name(folder.string()) + ": " + training.value("network", training.value("task", verb)),
      file);
  add_measures(training, page);
  const fs::path model = folder / "model.crumb";
  std::error_code unknown;
  if (fs::exists(model, unknown)) {
    const StoredModel stored = stored_model(model.string());
    if (const auto bytes = model_bytes(model.string()))
      page.summary.push_back({"size", bytes_cell(*bytes), "of model.crumb"});
    if (stored.bits_a_weight > 0)
      page.summary.push_back(
          {"bits a weight", number_cell(stored.bits_a_weight, 3), "of what is quantized, scales included"});
    if (Table layers = stored_table({stored}); !layers.rows.empty()) page.tables.push_back(std::move(layers));
    add_histograms({stored}, page);
  }
  add_tables(training, page);
  add_losses(folder / "log.jsonl", page);
  if (const auto notes = training.find("notes"); notes != training.end() && notes->is_array())
    for (const Json& note : *notes)
      if (note.is_string()) page.notes.push_back(note.get<std::string>());
  page.recipe = training.value("recipe", "");
  add_rest(training, page);
  return page;
}

report::Report training_page(const ReportFile& file, const training::SweepTable& table) {
  report::Report page = begin_page("train", table.task + " (" + table.network + "): " + table.title, file);
  if (!table.miniature_of.empty()) page.sentence = "A miniature of " + table.miniature_of + ".";
  report::Chart chart{.title = table.metric + " against " + table.axis, .x = table.axis, .y = table.metric};
  Table cells{.key = "grid",
              .title = "The grid",
              .note = "Means over seeds, from the least to the greatest.",
              .columns = {{"series", "series"},
                          {"at", table.axis},
                          {"mean", "mean", true},
                          {"least", "least", true},
                          {"greatest", "greatest", true},
                          {"seeds", "seeds", true},
                          {"sparsity", "zeros %", true},
                          {"bops", "bit operations", true},
                          {"widths", "widths"}}};
  for (const training::SweepCell& cell : table.cells) {
    chart.points.push_back(
        {.name = cell.series + " " + cell.label, .series = cell.series, .x = cell.x, .y = cell.mean});
    if (cell.seeds > 1) {
      chart.points.back().low = cell.least;
      chart.points.back().high = cell.greatest;
    }
    cells.rows.push_back({Cell(cell.series), Cell(cell.label), number_cell(cell.mean, 4),
                          number_cell(cell.least, 4), number_cell(cell.greatest, 4),
                          count_cell(static_cast<std::uint64_t>(cell.seeds)),
                          cell.cost ? number_cell(100 * cell.cost->sparsity, 2) : Cell(),
                          cell.cost ? number_cell(cell.cost->bops, 0) : Cell(), Cell(cell.widths)});
  }
  Table references{.key = "references",
                   .title = "Compared with",
                   .columns = {{"network", "network"}, {"value", table.metric, true}}};
  for (const training::TrainReference& one : table.references) {
    references.rows.push_back({Cell(one.name), number_cell(one.mean, 4)});
    page.summary.push_back({one.name, number_cell(one.mean, 4), table.metric});
  }
  page.charts.push_back(std::move(chart));
  page.tables.push_back(std::move(cells));
  if (!references.rows.empty()) page.tables.push_back(std::move(references));
  return page;
}

}  // namespace crumb::jobs

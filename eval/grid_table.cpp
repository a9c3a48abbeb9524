#include "eval/grid_table.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/json/numbers.h"
#include "base/text/fixed.h"
#include "eval/pareto.h"

namespace crumb::eval {
namespace {

using Json = nlohmann::ordered_json;

constexpr Metric kMetrics[] = {
    {.name = "accuracy", .axis = "accuracy (share of labels)"},
    {.name = "agreement", .axis = "agreement with the float network (share of first choices)"},
    {.name = "psnr", .axis = "PSNR (dB)", .digits = 2},
    {.name = "cosine", .axis = "mean cosine to the float network"},
    {.name = "kl",
     .axis = "KL divergence from the float network (nats)",
     .more_is_better = false,
     .digits = 5},
    {.name = "perplexity", .axis = "perplexity", .more_is_better = false, .digits = 3},
};

constexpr Cost kCosts[] = {{.name = "bits", .axis = "bits per weight"},
                           {.name = "bytes", .axis = "bytes of the file"},
                           {.name = "accumulator", .axis = "accumulator (bits, by data type)"},
                           {.name = "bops", .axis = "bit operations"}};

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

template <class T>
std::string csv_number(const std::optional<T>& value) {
  if (!value) return "";
  if constexpr (std::is_floating_point_v<T>)
    return number_text(*value);
  else
    return std::to_string(*value);
}

/// A cell as RFC 4180 has it.
std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

void append_line(std::string& csv, const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) csv += (i > 0 ? "," : "") + csv_text(cells[i]);
  csv += '\n';
}

std::string short_number(const std::optional<int>& value) { return value ? std::to_string(*value) : "-"; }

template <class T>
Json json_optional(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

double number_in(const nlohmann::json& json) {  // as json_number writes it
  if (!json.is_string()) return json.get<double>();
  const auto& text = json.get_ref<const std::string&>();
  const double infinite = std::numeric_limits<double>::infinity();
  return text == "inf" ? infinite : text == "-inf" ? -infinite : kNone;
}

template <class T>
std::optional<T> optional_in(const nlohmann::json& json) {
  return json.is_null() ? std::nullopt : std::optional<T>(json.get<T>());
}

}  // namespace

std::span<const Metric> metrics() { return kMetrics; }
std::span<const Cost> costs() { return kCosts; }

const Metric& metric_named(std::string_view name) {
  return *std::ranges::find(kMetrics, name, &Metric::name);
}
const Cost& cost_named(std::string_view name) { return *std::ranges::find(kCosts, name, &Cost::name); }

std::optional<double> GridRow::score(const Metric& metric) const {
  const auto found = scores.find(metric.name);
  return found == scores.end() ? std::nullopt : std::optional(found->second);
}

std::optional<double> GridRow::cost(const Cost& cost) const {
  if (cost.name == "bits") return bits;
  if (cost.name == "bytes") return bytes ? std::optional(static_cast<double>(*bytes)) : std::nullopt;
  if (cost.name == "bops") return bops;
  return accumulator.by_types ? std::optional<double>(*accumulator.by_types) : std::nullopt;
}

GridTable grid_table(std::string model, const Metric& metric, const Cost& cost, std::vector<GridRow> rows) {
  std::vector<CostAndScore> points;
  for (const GridRow& row : rows) {
    const double score = row.score(metric).value_or(kNone);
    points.push_back(
        {.cost = row.cost(cost).value_or(kNone), .score = metric.more_is_better ? score : -score});
  }
  points.front().score = kNone;  // the float network's: it is what others are compared with
  return {.model = std::move(model),
          .metric = metric,
          .cost = cost,
          .rows = std::move(rows),
          .front = pareto_front(points)};
}

std::vector<std::string> heads_of(const GridTable& table) {
  return {"",     "format", "activations", "method",    std::string(table.metric.name),
          "bits", "bytes",  "acc types",   "acc codes", "BOPs",
          "s",    "note"};
}

std::vector<std::string> cells_of(const GridTable& table, std::size_t i) {
  const GridRow& row = table.rows[i];
  const auto score = row.score(table.metric);
  return {table.front[i] ? "*" : "",
          row.format,
          row.activations,
          row.method,
          score ? fixed(*score, table.metric.digits) : "-",
          row.bits ? fixed(*row.bits, 3) : "-",
          row.bytes ? std::to_string(*row.bytes) : "-",
          short_number(row.accumulator.by_types),
          short_number(row.accumulator.exact),
          row.bops ? fixed(*row.bops, 0) : "-",
          fixed(row.seconds, 1),
          row.note};
}

std::vector<std::vector<std::string>> cells_of(const GridTable& table) {
  std::vector<std::vector<std::string>> cells{heads_of(table)};
  for (std::size_t i = 0; i < table.rows.size(); ++i) cells.push_back(cells_of(table, i));
  return cells;
}

Json json_of(const GridRow& row) {
  Json json{{"format", row.format}, {"activations", row.activations}, {"method", row.method}};
  json["scores"] = Json::object();
  for (const auto& [name, value] : row.scores) json["scores"][name] = json_number(value);
  json["bits_per_weight"] = row.bits ? json_number(*row.bits) : Json(nullptr);
  json["bytes"] = json_optional(row.bytes);
  json["accumulator"] = {{"by_data_type", json_optional(row.accumulator.by_types)},
                         {"by_weights", json_optional(row.accumulator.by_weights)},
                         {"exact", json_optional(row.accumulator.exact)}};
  json["bops"] = row.bops ? json_amount(*row.bops) : Json(nullptr);
  json["failed"] = row.failed;
  json["note"] = row.note;
  json["file"] = row.file.empty() ? Json(nullptr) : Json(row.file);
  json["seconds"] = row.seconds;
  return json;
}

GridRow row_of(const nlohmann::json& json, const std::string& name) {
  try {
    GridRow row{.format = json.at("format"),
                .activations = json.at("activations"),
                .method = json.at("method"),
                .scores = {},
                .bits = {},
                .bytes = optional_in<std::uint64_t>(json.at("bytes")),
                .accumulator = {},
                .bops = {},
                .note = json.at("note"),
                .file = json.at("file").is_null() ? std::string() : json.at("file").get<std::string>(),
                .failed = json.at("failed"),
                .seconds = json.at("seconds")};
    for (const auto& [metric, value] : json.at("scores").items()) row.scores[metric] = number_in(value);
    if (const auto& bits = json.at("bits_per_weight"); !bits.is_null()) row.bits = number_in(bits);
    if (const auto& bops = json.at("bops"); !bops.is_null()) row.bops = number_in(bops);
    const auto& widths = json.at("accumulator");
    row.accumulator = {.by_types = optional_in<int>(widths.at("by_data_type")),
                       .by_weights = optional_in<int>(widths.at("by_weights")),
                       .exact = optional_in<int>(widths.at("exact"))};
    return row;
  } catch (const nlohmann::json::exception& error) {
    throw Error(name + " is no row of a grid: " + error.what());
  }
}

Json json_of(const GridTable& table) {
  Json json{{"model", table.model},
            {"metric", std::string(table.metric.name)},
            {"against", std::string(table.cost.name)},
            {"rows", Json::array()}};
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    Json row = json_of(table.rows[i]);
    row["front"] = static_cast<bool>(table.front[i]);
    json["rows"].push_back(std::move(row));
  }
  return json;
}

std::string csv_of(const GridTable& table) {
  std::vector<std::string> heads{"format", "activations", "method"};
  for (const Metric& metric : kMetrics) heads.emplace_back(metric.name);
  for (const char* head : {"bits_per_weight", "bytes", "accumulator_by_data_type", "accumulator_by_weights",
                           "accumulator_exact", "bops", "front", "failed", "note", "seconds"})
    heads.emplace_back(head);
  std::string csv;
  append_line(csv, heads);
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const GridRow& row = table.rows[i];
    std::vector<std::string> cells{row.format, row.activations, row.method};
    for (const Metric& metric : kMetrics) cells.push_back(csv_number(row.score(metric)));
    for (std::string& cell : std::vector<std::string>{
             csv_number(row.bits), csv_number(row.bytes), csv_number(row.accumulator.by_types),
             csv_number(row.accumulator.by_weights), csv_number(row.accumulator.exact), csv_number(row.bops),
             table.front[i] ? "1" : "0", row.failed ? "1" : "0", row.note, fixed(row.seconds, 2)})
      cells.push_back(std::move(cell));
    append_line(csv, cells);
  }
  return csv;
}

}  // namespace crumb::eval

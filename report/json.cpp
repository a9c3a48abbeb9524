#include <nlohmann/json.hpp>

#include "base/json/numbers.h"
#include "report/picture.h"
#include "report/write.h"

namespace crumb::report {
namespace {

using Json = nlohmann::ordered_json;

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json value_of(const Cell& cell) { return cell.number ? json_amount(*cell.number) : text_or_null(cell.text); }

Json json_of_facts(const std::vector<Fact>& facts) {
  Json list = Json::array();
  for (const Fact& fact : facts)
    list.push_back({{"name", fact.name},
                    {"value", value_of(fact.value)},
                    {"text", fact.value.text},
                    {"note", text_or_null(fact.note)}});
  return list;
}

Json number_or_null(const std::optional<double>& number) {
  return number ? json_number(*number) : Json(nullptr);
}

Json json_of_chart(const Chart& chart) {
  Json json{{"title", chart.title}, {"x", chart.x}, {"y", chart.y}};
  json["level"] = number_or_null(chart.level);
  json["level_name"] = text_or_null(chart.level_name);
  json["points"] = Json::array();
  for (const Point& point : chart.points)
    json["points"].push_back({{"name", point.name},
                              {"series", point.series},
                              {"x", json_number(point.x)},
                              {"y", json_number(point.y)},
                              {"interval", {number_or_null(point.low), number_or_null(point.high)}},
                              {"front", point.is_on_front}});
  return json;
}

Json json_of_table(const Table& table) {
  Json json{{"title", table.title}, {"note", text_or_null(table.note)}};
  json["columns"] = Json::array();
  for (const Column& column : table.columns)
    json["columns"].push_back({{"key", column.key}, {"head", column.head}, {"number", column.is_number}});
  json["rows"] = Json::array();
  for (const std::vector<Cell>& cells : table.rows) {
    Json row = Json::object();
    for (std::size_t i = 0; i < cells.size(); ++i) row[table.columns[i].key] = value_of(cells[i]);
    json["rows"].push_back(std::move(row));
  }
  return json;
}

Json json_of_histogram(const Histogram& histogram) {
  return {{"least", json_number(histogram.low)},
          {"greatest", json_number(histogram.high)},
          {"counts", histogram.counts}};
}

Json json_of_layer(const LayerHistograms& one) {
  return {{"model", one.model},
          {"layer", one.layer},
          {"format", one.format},
          {"seen", one.seen},
          {"all", one.all},
          {"codes", one.codes ? json_of_histogram(*one.codes) : Json(nullptr)},
          {"values", json_of_histogram(one.values)}};
}

Json json_of_sample(const Sample& sample) {
  Json json{{"model", sample.model},
            {"sample", sample.number},
            {"facts", json_of_facts(sample.facts)},
            {"text", text_or_null(sample.text)}};
  json["pictures"] = Json::array();
  for (const Picture& picture : sample.pictures)
    json["pictures"].push_back({{"caption", picture.caption},
                                {"width", picture.width},
                                {"height", picture.height},
                                {"png", base64(png_of(picture))}});
  return json;
}

}  // namespace

std::string json_of(const Report& report) {
  Json json{{"schema", kReportSchema},
            {"kind", report.kind},
            {"title", report.title},
            {"sentence", text_or_null(report.sentence)},
            {"summary", json_of_facts(report.summary)},
            {"notes", report.notes}};
  json["charts"] = Json::array();
  for (const Chart& chart : report.charts) json["charts"].push_back(json_of_chart(chart));
  json["tables"] = Json::object();
  for (const Table& table : report.tables) json["tables"][table.key] = json_of_table(table);
  json["histograms"] = Json::array();
  for (const LayerHistograms& one : report.histograms) json["histograms"].push_back(json_of_layer(one));
  json["samples"] = Json::array();
  for (const Sample& sample : report.samples) json["samples"].push_back(json_of_sample(sample));
  json["recipe"] = text_or_null(report.recipe);
  json["commands"] = report.commands;
  json["made_with"] = Json::object();
  for (const auto& [name, value] : report.made_with) json["made_with"][name] = value;
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace crumb::report

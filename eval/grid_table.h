// What a grid of formats and methods gave one network: a row for each, as table, JSON, CSV and plot.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eval/output_scores.h"

namespace crumb::eval {

/// How a network is scored. Every one that there is: kMetrics.
struct Metric {
  std::string_view name;  ///< in Scores
  std::string_view axis;  ///< what a plot calls it
  bool more_is_better = true;
  int digits = 4;  ///< of a table
};

/// What a network costs. Every one that there is: kCosts.
struct Cost {
  std::string_view name, axis;
};

std::span<const Metric> metrics();
std::span<const Cost> costs();
/// Precondition: there is one of that name.
const Metric& metric_named(std::string_view name);
const Cost& cost_named(std::string_view name);

/// Bits that a register takes for every sum of the widest layer.
struct RegisterBits {
  std::optional<int> by_types;    ///< whatever the codes are
  std::optional<int> by_weights;  ///< by the codes' l1 norms
  std::optional<int> exact;       ///< by the codes' signs

  bool operator==(const RegisterBits&) const = default;
};

struct GridRow {
  std::string format, activations, method;
  Scores scores;
  std::optional<double> bits;          ///< of a weight of what is quantized, scales included
  std::optional<std::uint64_t> bytes;  ///< of the file
  RegisterBits accumulator;
  std::optional<double> bops;
  std::string note;     ///< short; of a failed row, why
  std::string file;     ///< that was kept; "": none
  bool failed = false;  ///< there is nothing but the note
  double seconds = 0;

  std::optional<double> score(const Metric& metric) const;
  std::optional<double> cost(const Cost& cost) const;
};

struct GridTable {
  std::string model;
  Metric metric;
  Cost cost;                  ///< that the front is against
  std::vector<GridRow> rows;  ///< the float network's first
  std::vector<bool> front;    ///< of the rows; never the first
};

/// Precondition: there is a row.
GridTable grid_table(std::string model, const Metric& metric, const Cost& cost, std::vector<GridRow> rows);

/// Heads and cells; "*" where a row is on the front.
std::vector<std::vector<std::string>> cells_of(const GridTable& table);
/// The same of one row, for tables that grow.
std::vector<std::string> heads_of(const GridTable& table);
std::vector<std::string> cells_of(const GridTable& table, std::size_t row);

nlohmann::ordered_json json_of(const GridTable& table);
nlohmann::ordered_json json_of(const GridRow& row);
/// What json_of gives of a row. Throws Error, which begins with `name`, where the JSON is none.
GridRow row_of(const nlohmann::json& json, const std::string& name);

/// A head and a line for each row, whose last cell is the seconds; quoted as RFC 4180 has it, numbers in
/// full, empty where there is none.
std::string csv_of(const GridTable& table);

/// A point for each row that has score and cost, a colour for each method, a line through the front, a dashed
/// one for the float network. The same table gives the same bytes.
std::string svg_of(const GridTable& table);

}  // namespace crumb::eval

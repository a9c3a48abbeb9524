#include "cli/inspect/verify_accumulator.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include "analysis/accumulator/check.h"
#include "analysis/accumulator/witness.h"
#include "base/error.h"
#include "base/files/output_place.h"
#include "base/files/text.h"
#include "base/text/number.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "export/qcdq/from_qcdq.h"
#include "graph/onnx/array_files.h"
#include "graph/onnx/write.h"
#include "jobs/shape_notes.h"
#include "models/read_graph.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;
using analysis::AccumulatorReport;
using analysis::AccumulatorRow;

constexpr std::size_t kMostFailures = 20;  // failures that a message lists at most

Json row_json(const AccumulatorRow& row) {
  Json json{{"name", row.name},          {"input", nullptr},     {"bits_needed", nullptr},
            {"bits_certified", nullptr}, {"worst_max", nullptr}, {"worst_min", nullptr},
            {"tile", row.tile}};
  if (row.input) json["input"] = {row.input->low, row.input->high};
  if (row.bits_needed) json["bits_needed"] = *row.bits_needed;
  if (row.bits_certified) json["bits_certified"] = *row.bits_certified;
  if (row.worst) {
    json["worst_max"] = row.worst->max;
    json["worst_min"] = row.worst->min;
  }
  if (row.input) json["assumed"] = row.assumed;
  if (row.input && row.input_step) json["input_step"] = *row.input_step;
  if (!row.operands.empty()) json["operands"] = row.operands;
  if (row.weight) json["weight"] = {row.weight->low, row.weight->high};
  if (!row.reason.empty()) json["reason"] = row.reason;
  return json;
}

void print_report(const AccumulatorReport& report) {
  std::vector<std::vector<std::string>> rows{
      {"layer", "operator", "input", "terms", "tile", "bias", "worst min", "worst max", "bits", "certified"}};
  for (const AccumulatorRow& row : report.layers) {
    std::string certified = "-";
    if (row.bits_certified) {
      certified = std::to_string(*row.bits_certified);
      if (row.method != graph::AccumulatorMethod::kNone) certified += " " + std::string(name_of(*row.method));
      if (!row.constrained) certified += ", not constrained";
    }
    const auto range = [](const std::optional<IntegerRange>& one) {
      return one ? std::to_string(one->low) + ".." + std::to_string(one->high) : std::string("?");
    };
    std::string inputs = range(row.input);
    if (row.weight) inputs += " x " + range(row.weight);
    if (row.assumed) inputs += ", assumed";
    rows.push_back({row.name, row.operands.empty() ? row.op : row.op + " " + row.operands, inputs,
                    row.length == 0 && !row.reason.empty() ? "?" : std::to_string(row.length),
                    row.tile == 0 ? "-" : std::to_string(row.tile), std::string(name_of(row.bias)),
                    row.worst ? std::to_string(row.worst->min) : "?",
                    row.worst ? std::to_string(row.worst->max) : "?",
                    row.bits_needed ? std::to_string(*row.bits_needed) : "not covered", certified});
  }
  print_table(rows);
  for (const AccumulatorRow& row : report.layers) {
    if (row.reason.empty()) continue;
    const std::string name = row.operands.empty() ? row.name : row.name + ", " + row.operands;
    std::cerr << "note: " << printable(name + ": not covered: " + row.reason) << "\n";
  }
  if (report.float_layers > 0) {
    std::cerr << "note: " << report.float_layers << " layers have float weights, and are not listed\n";
  }
}

/// Writes one model and one array for each layer with integers and a range.
void write_witnesses(const graph::Graph& graph, const AccumulatorReport& report,
                     const analysis::GivenRanges& ranges, const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error("cannot make the folder " + quote_text(folder.string()) + ": " + error.message());
  const analysis::ProductLayers layers(graph, ranges);
  std::set<std::string> taken;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const analysis::ProductLayer layer = layers.layer(i);
    if (!layer.has_codes()) continue;
    const auto row = std::ranges::find_if(report.layers, [&](const AccumulatorRow& one) {
      return one.name == layer.name && one.operands == layer.operands;
    });
    if (row == report.layers.end() || !row->worst) continue;
    const std::string requested = graph::file_name_of(layer.name);
    for (analysis::Witness& witness : analysis::witnesses_of(layer, row->tile)) {
      if (row->tile > 0) {  // only a certificate describes its registers
        witness.graph = analysis::with_certificates(
            std::move(witness.graph),
            {{layer.name, {.bits = kMostAccumulatorBits, .tile = row->tile, .constrained = false}}});
      }
      const std::string base = witness.shows_max ? requested : requested + "_min";
      std::string name = base;
      for (int n = 1; !taken.insert(name).second; ++n) name = base + "_" + std::to_string(n);
      graph::write_onnx(witness.graph, folder / (name + ".onnx"));
      graph::write_array(folder / (name + ".npy"), witness.input);
      std::cerr << "note: " << printable(layer.name) << ": witness " << printable(name)
                << ".onnx, .npy; its results reach ";
      if (witness.shows_min) std::cerr << witness.reached.min;
      if (witness.shows_max && witness.shows_min) std::cerr << " and ";
      if (witness.shows_max) std::cerr << witness.reached.max;
      std::cerr << "\n";
    }
  }
}

std::string text_of_failures(const std::vector<std::string>& failures) {
  std::string text;
  for (std::size_t i = 0; i < failures.size() && i < kMostFailures; ++i)
    text += (i > 0 ? "\n" : "") + failures[i];
  if (failures.size() > kMostFailures)
    text += "\nand " + std::to_string(failures.size() - kMostFailures) + " more";
  return text;
}

}  // namespace

analysis::GivenRanges read_input_ranges(const std::vector<std::string>& requests) {
  constexpr std::int64_t kMost = std::int64_t{1} << 52;
  analysis::GivenRanges ranges;
  for (const std::string& requested : requests) {
    const auto refuse = [&] {
      throw usage_error("--input-range " + quote_text(requested) + ": expected NAME=lo:hi, as in x=0:255");
    };
    const std::size_t equals = requested.rfind('=');  // a name may contain '='
    if (equals == std::string::npos || equals == 0) refuse();
    const std::string_view both = std::string_view(requested).substr(equals + 1);
    const std::size_t colon = both.find(':');
    if (colon == std::string_view::npos) refuse();
    const auto low = parse_number<std::int64_t>(both.substr(0, colon));
    const auto high = parse_number<std::int64_t>(both.substr(colon + 1));
    if (!low || !high || *low > *high || *low < -kMost || *high > kMost) refuse();
    const std::string name = requested.substr(0, equals);
    if (!ranges.emplace(name, IntegerRange{*low, *high}).second)
      throw usage_error("--input-range gives " + quote_text(name) + " twice");
  }
  return ranges;
}

graph::Graph in_qonnx(const graph::Graph& graph) { return exporting::in_qonnx(graph); }

void verify_accumulators(const VerifyAccumulatorFlags& options) {
  if (options.bits && (*options.bits < 1 || *options.bits > 64)) {
    throw usage_error("--accumulator " + std::to_string(*options.bits) + ": expected 1 to 64 bits");
  }
  const analysis::AccumulatorCheck check{.ranges = read_input_ranges(options.ranges), .bits = options.bits};
  if (!options.witness.empty()) check_output_folder(options.witness);
  AccumulatorReport report;
  Notes notes;
  try {
    const graph::Graph graph = in_qonnx(models::read_graph(options.path));
    jobs::note_shapes(graph, notes);
    report = analysis::check_accumulators(graph, check);
    if (!options.witness.empty()) write_witnesses(graph, report, check.ranges, options.witness);
  } catch (const Error& error) {
    const std::string name = quote_text(options.path), text = error.what();
    if (text.starts_with(name)) throw;
    throw Error(name + ": " + text, error.kind());
  }
  if (options.json) {
    Json json{{"layers", Json::array()}, {"notes", notes.all()}};
    for (const AccumulatorRow& row : report.layers) json["layers"].push_back(row_json(row));
    print_json(json);
  } else {
    print_report(report);
  }
  if (!report.failures.empty())
    throw Error(quote_text(options.path) + ": " + text_of_failures(report.failures));
}

}  // namespace crumb::cli

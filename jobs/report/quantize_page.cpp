#include "jobs/report/quantize_page.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/text/fixed.h"
#include "jobs/report/page_parts.h"
#include "jobs/report/stored_layers.h"
#include "quant/quantizer.h"

namespace crumb::jobs {
namespace {

using report::Cell;
using report::Table;

std::string ratio_text(const QuantizeReport& report) {
  return fixed(static_cast<double>(report.input_bytes) /
                   static_cast<double>(std::max<std::uint64_t>(report.output_bytes, 1)),
               2) +
         " times smaller";
}

std::string sentence_of(const QuantizeReport& report) {
  std::string text = "Input " + bytes_cell(report.input_bytes).text;
  if (report.output_bytes > 0)
    text = bytes_cell(report.output_bytes).text + (report.upper_bound ? " at most" : "") + " from " +
           bytes_cell(report.input_bytes).text + ", " + ratio_text(report);
  if (report.bits_per_weight > 0) text += ", at " + fixed(report.bits_per_weight, 3) + " bits a weight";
  text += '.';
  if (report.comparison && !report.comparison->outputs.empty() && report.comparison->outputs[0].is_finite()) {
    const graph::OutputAgreement& output = report.comparison->outputs[0];
    text +=
        " On the samples, output " + output.output + " keeps " + fixed(output.distortion.sqnr_db, 2) + " dB";
    if (output.top1) text += ", and its largest element in " + fixed(100 * *output.top1, 2) + " % of rows";
    text += '.';
  }
  return text;
}

void add_summary(const QuantizeReport& report, report::Report& page) {
  if (report.output_bytes > 0)
    page.summary.push_back({"size", bytes_cell(report.output_bytes),
                            (report.upper_bound ? "at most, of " : "of ") +
                                bytes_cell(report.input_bytes).text + ", " + ratio_text(report)});
  if (report.bits_per_weight > 0)
    page.summary.push_back(
        {"bits a weight", number_cell(report.bits_per_weight, 3), "of what is quantized, scales included"});
  const auto quantized = static_cast<std::uint64_t>(
      std::ranges::count_if(report.tensors, [](const TensorReport& tensor) { return !tensor.spec.empty(); }));
  page.summary.push_back({"quantized", count_cell(quantized), report.is_network ? "constants" : "tensors"});
  page.summary.push_back({"kept", count_cell(report.tensors.size() - quantized), "in floats"});
  if (!report.plan.edges.empty())
    page.summary.push_back({"activations", count_cell(report.plan.edges.size()), "with a quantizer"});
  if (!report.comparison) return;
  for (const graph::OutputAgreement& output : report.comparison->outputs) {
    if (!output.is_finite()) {
      page.summary.push_back({"not finite", count_cell(output.not_finite), "of output " + output.output});
      continue;
    }
    page.summary.push_back({"SQNR dB", sqnr_cell(output.distortion.sqnr_db), "of output " + output.output});
    if (output.top1)
      page.summary.push_back(
          {"same largest element %", number_cell(100 * *output.top1, 2), "of rows of " + output.output});
  }
}

Table layers_of(const QuantizeReport& report) {
  Table table{.key = "layers",
              .title = "Weights",
              .note = "Worst first; SQNR in dB of the values that are stored against those that were read.",
              .columns = {{"layer", "weight"},
                          {"node", "of"},
                          {"format", "format"},
                          {"shape", "shape"},
                          {"bits", "bits a weight", true},
                          {"bytes", "bytes", true},
                          {"weights_sqnr_db", "SQNR dB", true},
                          {"max_abs_error", "largest error", true},
                          {"kept_because", "kept because"}}};
  std::vector<std::size_t> order(report.tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto place = [&](std::size_t i) {
    const TensorReport& tensor = report.tensors[i];
    if (tensor.spec.empty()) return std::pair(1, 0.0);
    return std::pair(0, tensor.is_measured && !std::isnan(tensor.sqnr_db)
                            ? tensor.sqnr_db
                            : std::numeric_limits<double>::infinity());
  };
  std::ranges::stable_sort(order, {}, place);
  for (const std::size_t i : order) {
    const TensorReport& tensor = report.tensors[i];
    const bool has_codes = !tensor.spec.empty();
    table.rows.push_back(
        {Cell(tensor.name), report.is_network ? Cell(report.plan.constants[i].node) : Cell(),
         Cell(has_codes ? tensor.spec : std::string(dtype_name(tensor.dtype))),
         Cell(shape_text(tensor.shape)), has_codes ? number_cell(bits_a_number(tensor), 3) : Cell(),
         count_cell(tensor.bytes), tensor.is_measured && has_codes ? sqnr_cell(tensor.sqnr_db) : Cell(),
         tensor.is_measured && has_codes ? number_cell(tensor.max_abs_error, 6) : Cell(),
         Cell(tensor.kept_because)});
  }
  return table;
}

Cell float_cell(float value) { return {number_text(value), static_cast<double>(value)}; }

Table activations_of(const QuantizeReport& report) {
  Table table{
      .key = "activations",
      .title = "Activations",
      .note =
          "Ranges in the samples, and how much of them is cut off; SQNR in dB of the outputs where only this "
          "quantizer is there.",
      .columns = {{"value", "activation"},
                  {"node", "for"},
                  {"format", "format"},
                  {"scale", "scale", true},
                  {"zero_point", "zero", true},
                  {"low", "least", true},
                  {"high", "greatest", true},
                  {"clipped", "cut off %", true},
                  {"alone_db", "alone dB", true}}};
  for (std::size_t i = 0; i < report.plan.edges.size(); ++i) {
    const graph::PlannedEdge& edge = report.plan.edges[i];
    const bool known = edge.scale > 0, seen = known && edge.has_own_scale();
    table.rows.push_back(
        {Cell(edge.value), Cell(edge.wanted_by), Cell(edge.spec.to_string()),
         known ? float_cell(edge.scale) : Cell(), known ? float_cell(edge.zero_point) : Cell(),
         seen ? float_cell(edge.least) : Cell(), seen ? float_cell(edge.greatest) : Cell(),
         report.comparison ? number_cell(100 * report.comparison->edges[i].share_saturated(), 4) : Cell(),
         edge.cost ? sqnr_cell(sqnr_of(*edge.cost)) : Cell()});
  }
  return table;
}

Table outputs_of(const QuantizeReport& report) {
  Table table{.key = "outputs",
              .title = "Outputs on the samples",
              .columns = {{"output", "output"},
                          {"sqnr_db", "SQNR dB", true},
                          {"max_abs_error", "largest error", true},
                          {"agreement", "same largest element %", true},
                          {"not_finite", "not finite", true}}};
  if (!report.comparison) return table;
  for (const graph::OutputAgreement& output : report.comparison->outputs)
    table.rows.push_back({Cell(output.output),
                          output.is_finite() ? sqnr_cell(output.distortion.sqnr_db) : Cell(),
                          output.is_finite() ? number_cell(output.distortion.max_abs_error, 6) : Cell(),
                          output.top1 && output.is_finite() ? number_cell(100 * *output.top1, 2) : Cell(),
                          count_cell(output.not_finite)});
  return table;
}

Table stages_of(const QuantizeReport& report) {
  Table table{.key = "stages",
              .title = "Stages",
              .note = "Squared errors over squares, with rounding alone, with the stage, and what was taken.",
              .columns = {{"layer", "layer"},
                          {"stage", "stage"},
                          {"measure", "of"},
                          {"before", "rounding", true},
                          {"tried", "tried", true},
                          {"after", "taken", true}}};
  for (const ptq::StageReport& stage : report.stages)
    for (const ptq::LayerReport& layer : stage.layers)
      table.rows.push_back(
          {Cell(layer.layer), Cell(stage.rolled_back ? stage.stage + ", undone" : stage.stage),
           Cell(stage.measure), number_cell(layer.before, 6),
           layer.tried ? number_cell(*layer.tried, 6) : Cell(), number_cell(layer.after, 6)});
  return table;
}

}  // namespace

report::Report page_of(const QuantizeRequest& request, const QuantizeReport& report) {
  const std::string of = report.foreseen ? file_name(report.input) + ", a dry run"
                                         : file_name(report.output) + " out of " + file_name(report.input);
  report::Report page = begin_page("quantize", of, request.report);
  page.sentence = sentence_of(report);
  add_summary(report, page);
  page.notes = report.notes;
  for (const SkippedEntry& entry : report.skipped)
    page.notes.push_back("left out: " + entry.name + ": " + entry.what);
  Table accumulators;
  if (!report.foreseen) {
    add_histograms({stored_model(report.output)}, page);
    if (!report.plan.edges.empty()) accumulators = accumulators_of(report.output);
  }
  for (Table table : {outputs_of(report), layers_of(report), activations_of(report), std::move(accumulators),
                      stages_of(report)})
    if (!table.rows.empty()) page.tables.push_back(std::move(table));
  page.recipe = to_yaml(report.recipe);
  if (!report.foreseen) {
    page.made_with.emplace_back("seconds", fixed(report.seconds, 2));
    page.made_with.emplace_back("resident memory", bytes_cell(report.peak_bytes).text);
  }
  if (!request.device.empty()) page.made_with.emplace_back("device", request.device);
  return page;
}

}  // namespace crumb::jobs

#include "cli/quantize/quantize_graph_report.h"

#include <algorithm>
#include <iostream>
#include <map>

#include "base/files/counted.h"
#include "base/files/text.h"

namespace crumb::cli {
namespace {

using graph::PlannedConstant;
using graph::PlannedEdge;

/// Returns, for a stage that rounds, what each layer loses either way.
std::string losses_of(const ptq::StageReport& stage) {
  std::string text;
  for (const ptq::LayerReport& layer : stage.layers) {
    if (!layer.tried) continue;
    text += "  " + printable(layer.layer) + ": rounding loses " + fixed(layer.before, 6) + ", this " +
            fixed(*layer.tried, 6) + (layer.after < layer.before ? "\n" : "; rounding stays\n");
  }
  return text;
}

std::string number(float value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", static_cast<double>(value));
  return text;
}

void print_constants(const jobs::QuantizeReport& report) {
  std::vector<std::vector<std::string>> rows{{"weight", "of", "shape", "spec", "bits", "SQNR dB"}};
  for (std::size_t i = 0; i < report.tensors.size(); ++i) {
    const PlannedConstant& constant = report.plan.constants[i];
    const TensorReport& tensor = report.tensors[i];
    if (!constant.spec) continue;
    rows.push_back({constant.value, constant.node, shape_text(tensor.shape), tensor.spec,
                    fixed(jobs::bits_a_number(tensor), 3), report.foreseen ? "-" : fixed(tensor.sqnr_db, 2)});
  }
  if (rows.size() > 1) print_table(rows);
  std::map<std::string, std::size_t> kept;
  for (const PlannedConstant& constant : report.plan.constants) {
    if (!constant.spec) ++kept[constant.kept_because];
  }
  for (const auto& [reason, count] : kept) {
    std::cout << (report.foreseen ? "keep " : "kept ") << count << ": " << printable(reason) << "\n";
  }
}

std::string cut_off_text(const std::vector<graph::BiasUse>& biases) {
  std::uint64_t values = 0, saturated = 0;
  for (const graph::BiasUse& use : biases) values += use.values, saturated += use.saturated;
  if (saturated == 0) return "";
  return "; " + std::to_string(saturated) + " of " + std::to_string(values) + " numbers are cut off";
}

void print_edges(const jobs::QuantizeReport& report) {
  if (report.plan.edges.empty()) return;
  std::vector<std::vector<std::string>> rows{
      {"activation", "for", "spec", "scale", "zero", "least", "greatest", "cut off %", "alone dB"}};
  for (std::size_t i = 0; i < report.plan.edges.size(); ++i) {
    const PlannedEdge& edge = report.plan.edges[i];
    const bool known = edge.scale > 0, seen = known && edge.has_own_scale();
    rows.push_back({edge.value, edge.wanted_by, edge.spec.to_string(), known ? number(edge.scale) : "-",
                    known ? number(edge.zero_point) : "-", seen ? number(edge.least) : "-",
                    seen ? number(edge.greatest) : "-",
                    report.comparison ? fixed(100 * report.comparison->edges[i].share_saturated(), 4) : "-",
                    edge.cost ? fixed(sqnr_of(*edge.cost), 1) : "-"});
  }
  std::cout << "\n";
  print_table(rows);
}

}  // namespace

std::string text_of(const ptq::StageReport& stage) {
  double before = 0, after = 0, worst = 0;
  for (const ptq::LayerReport& layer : stage.layers) {
    before += layer.before / static_cast<double>(stage.layers.size());
    after += layer.after / static_cast<double>(stage.layers.size());
    if (layer.before > 0) worst = std::max(worst, layer.after / layer.before);
  }
  std::string text = "stage " + stage.stage + ": " + count_text(stage.layers.size(), "matrix", "matrices") +
                     ", squared error of " + stage.measure + " over their squares " + fixed(before, 5) +
                     " -> " + fixed(after, 5) + " (mean), at worst " + fixed(worst, 3) + " of what it was\n";
  for (const std::string& note : stage.notes) text += "  " + printable(note) + "\n";
  return text + losses_of(stage);
}

/// Prints the report: constants, stages, edges, biases, and how far the outputs agree.
void print(const jobs::QuantizeReport& report) {
  print_constants(report);
  for (const ptq::StageReport& stage : report.stages) std::cout << "\n" << text_of(stage);
  print_edges(report);
  if (!report.plan.biases.empty()) {
    std::cout << "\n"
              << report.plan.biases.size() << " biases at the scale of input times weight, int"
              << report.plan.biases[0].bits << cut_off_text(report.biases) << "\n";
  }
  if (report.comparison) {
    std::cout << "\n";
    for (const graph::OutputAgreement& output : report.comparison->outputs) {
      std::cout << "output " << printable(output.output) << ": ";
      if (!output.is_finite()) {
        std::cout << output.not_finite << " of " << count_text(output.values, "number")
                  << " are inf or NaN, in the float network " << output.not_finite_before << "\n";
        continue;
      }
      std::cout << "SQNR " << fixed(output.distortion.sqnr_db, 2) << " dB, largest error "
                << fixed(output.distortion.max_abs_error, 6);
      if (output.top1)
        std::cout << ", the same largest element in " << fixed(100 * *output.top1, 2) << " % of rows";
      std::cout << "\n";
    }
  }
  std::cout << (report.foreseen ? "dry run: nothing is written" : printable(report.output) + ": ");
  if (!report.foreseen) std::cout << size_text(report.input_bytes, report.output_bytes);
  if (report.bits_per_weight > 0) std::cout << ", " << fixed(report.bits_per_weight, 3) << " bits per weight";
  std::cout << (report.foreseen ? "\n" : ", " + fixed(report.seconds, 2) + " s\n");
}

}  // namespace crumb::cli

// What quantizing a graph did, or would do, as text and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/output.h"
#include "graph/quantize/compare.h"
#include "graph/quantize/plan.h"
#include "ptq/stages.h"

namespace crumb::cli {

/// A constant of the plan as it became.
struct ConstantLine {
  std::vector<std::int64_t> shape;
  double bits = 0;                ///< stored bits of codes and scales, a number
  std::optional<double> sqnr_db;  ///< not known of a dry run
  std::uint64_t saturated_scales = 0;
};

struct GraphReport {
  std::string input, output;
  bool foreseen = false;  ///< a dry run
  graph::QuantPlan plan;
  std::vector<ConstantLine> constants;  ///< as in the plan
  std::vector<ptq::StageReport> stages;
  std::vector<graph::BiasUse> biases;                ///< of the plan's; empty of a dry run
  std::optional<graph::GraphComparison> comparison;  ///< with calibration data
  std::vector<std::string> notes;
  double seconds = 0;
};

/// Fills in the lines of constants; without a quantized graph, what is known beforehand.
void describe_constants(const graph::Graph& before, GraphReport& report,
                        const graph::Graph* quantized = nullptr);

Json json_of(const GraphReport& report);
void print(const GraphReport& report);

/// What a stage did, a line for people and one for each note.
std::string text_of(const ptq::StageReport& stage);

}  // namespace crumb::cli

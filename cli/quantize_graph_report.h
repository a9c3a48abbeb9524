// What quantizing a graph did, or would do, as text and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/output.h"
#include "cli/quantize_report.h"
#include "graph/quantize/compare.h"
#include "graph/quantize/plan.h"
#include "ptq/stages.h"

namespace crumb::cli {

struct GraphReport {
  std::string input, output;
  bool foreseen = false;  ///< a dry run
  graph::QuantPlan plan;
  std::vector<TensorReport> constants;  ///< as in the plan; bytes as a packed file has them, before zstd
  std::uint64_t input_bytes = 0;
  std::uint64_t output_bytes = 0;     ///< of what was written
  std::vector<SkippedEntry> skipped;  ///< what the source's files hold beside tensors
  std::vector<ptq::StageReport> stages;
  std::vector<graph::BiasUse> biases;                ///< of the plan's; empty of a dry run
  std::optional<graph::GraphComparison> comparison;  ///< with calibration data
  std::vector<std::string> notes;
  double seconds = 0;
};

/// Fills in the constants; without a quantized graph, what is known beforehand.
void describe_constants(const graph::Graph& before, GraphReport& report,
                        const graph::Graph* quantized = nullptr);

Json json_of(const GraphReport& report);
void print(const GraphReport& report);

/// What a stage did, a line for people and one for each note.
std::string text_of(const ptq::StageReport& stage);

}  // namespace crumb::cli

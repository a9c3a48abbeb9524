// Quantizing without training: what a recipe's stages (quant/recipe/stages.h) do to a network before its constants become codes.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/quantize/plan.h"
#include "quant/recipe/stages.h"

namespace crumb::ptq {

/// What a stage finds, and changes.
struct Setting {
  graph::Graph graph;     ///< in floats, prepared (graph::prepare); what stages add computes the same network
  graph::QuantPlan plan;  ///< made for it: what will become codes, and of which spec
  int threads = 0;        ///< 0: those the machine has; never changes a number
};

/// What a stage did to one matrix: the squared error of what is kept of it, over its own squares.
struct LayerReport {
  std::string layer;  ///< the constant
  double before = 0;  ///< rounded alone
  double after = 0;
};

struct StageReport {
  std::string stage;                ///< with its options
  std::vector<LayerReport> layers;  ///< as the graph has them
};

/// All of them, in order. Throws Error where a stage is one of training, or finds nothing to do, and says which.
std::vector<StageReport> run_stages(const std::vector<Stage>& stages, Setting& setting);

}  // namespace crumb::ptq

// A network in QONNX's words, as the tools that take it want them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "export/lint/lint.h"
#include "graph/graph.h"

namespace crumb::exporting {

struct QonnxOptions {
  Profile profile = Profile::kQonnx;
  std::int64_t opset = 0;                                   ///< 0: 13, or the least that the operators need
  std::map<std::string, std::vector<std::int64_t>> shapes;  ///< of inputs; 1 for what is open
  bool integer_view = false;
  bool allow_approximate = false;  ///< what the tool computes nearly the same is noted, not refused
  std::vector<std::string>* notes = nullptr;  ///< gets what a person should know
};

/// What every profile has: static shapes, constants as initializers, weights baked (qonnx/bake_weights.h),
/// Gemm as MatMul and Add, biases of convolutions behind them, no Transpose of a weight, names that begin
/// with a letter, finn_datatype on whole numbers only; then the profile's own rules (lint.h), as far as they
/// keep the numbers. Throws Error that names the nodes which break a rule all the same, with the rule.
graph::Graph to_qonnx(graph::Graph graph, const QonnxOptions& options = {});

}  // namespace crumb::exporting

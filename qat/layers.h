// The layers of a planned graph as training needs them: which quantizers a weight meets. Free of LibTorch.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "graph/quantize/plan.h"
#include "quant/accumulator/accumulator.h"

namespace crumb::qat {

struct Layer {
  std::size_t constant = 0;  ///< of the plan
  std::size_t node = 0;      ///< of the graph, the one that multiplies by it
  std::optional<std::size_t>
      edge;  ///< of the plan: whose codes it multiplies; none where that is not quantized
  std::optional<std::size_t> bias;  ///< of the plan
  bool is_depthwise = false;
  bool is_first = false;  ///< no other layer computes what it takes
  bool is_last = false;   ///< no other layer takes what follows from it
};

/// Weights of operators that have a spec, as the graph computes them. Embedding tables are none: rows are picked, not
/// added up.
std::vector<Layer> layers_of(const graph::Graph& graph, const graph::QuantPlan& plan);

/// What the codes of an edge can be, less the zero point: integers. Nothing for other grids and zero points that are
/// not whole.
std::optional<IntegerRange> code_range(const QuantSpec& spec, float zero_point);

}  // namespace crumb::qat

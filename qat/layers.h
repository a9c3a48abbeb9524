// The layers of a planned graph as training needs them: which quantizers go with a weight. Free of LibTorch.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "graph/quantize/plan.h"
#include "quant/accumulator/accumulator.h"

namespace crumb::qat {

struct Layer {
  std::size_t constant = 0;  ///< index in the plan
  std::size_t node = 0;      ///< index in the graph: the node that multiplies by it
  std::optional<std::size_t>
      edge;  ///< index in the plan: the edge whose codes it multiplies; none where its input is not quantized
  std::optional<std::size_t> bias;  ///< index in the plan
  bool is_depthwise = false;
  bool is_first = false;  ///< its input comes from no other layer
  bool is_last = false;   ///< its output goes to no other layer
};

/// Returns the layers of operators whose weights have a spec, as the graph computes them. Embedding tables
/// are none: their rows are picked, not added up.
std::vector<Layer> layers_of(const graph::Graph& graph, const graph::QuantPlan& plan);

/// Returns the range of an edge's codes less the zero point, as integers. Returns nothing for other grids and
/// for zero points that are not whole.
std::optional<IntegerRange> code_range(const QuantSpec& spec, float zero_point);

}  // namespace crumb::qat

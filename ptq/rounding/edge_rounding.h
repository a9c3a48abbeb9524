// Quantizes values as an activation quantizer does, outside of its network.
#pragma once

#include <memory>

#include "graph/engine.h"
#include "graph/quantize/plan.h"

namespace crumb::ptq {

class EdgeRounding {
 public:
  /// The edge is a calibrated one of a plan for this graph, and no truncation. The engine must outlive this.
  EdgeRounding(const graph::Graph& graph, const graph::PlannedEdge& edge, const graph::Engine& engine);

  /// Returns each number's rounding error: rounded minus given. Elements may be in another order than at the
  /// edge, unless it has one scale for each token.
  graph::Tensor error(const graph::Tensor& value) const;

 private:
  std::unique_ptr<graph::Executable> quantizer_;
};

}  // namespace crumb::ptq

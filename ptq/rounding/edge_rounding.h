// What a quantizer of activations makes of values, outside of its network.
#pragma once

#include <memory>

#include "graph/engine.h"
#include "graph/quantize/plan.h"

namespace crumb::ptq {

class EdgeRounding {
 public:
  /// Of a calibrated edge of a plan for this graph; no truncation. The engine must outlive it.
  EdgeRounding(const graph::Graph& graph, const graph::PlannedEdge& edge, const graph::Engine& engine);

  /// What is lost of each number: rounded less given. Elements may stand in another order than where the edge is, unless the scale
  /// is one for each token.
  graph::Tensor error(const graph::Tensor& value) const;

 private:
  std::unique_ptr<graph::Executable> quantizer_;
};

}  // namespace crumb::ptq

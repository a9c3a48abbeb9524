// The quantizers on a plan's edges while a network trains: one scale for each group that has a scale of its
// own. Dynamic quantizers and truncated means follow from values and from the others' scales.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "graph/quantize/plan.h"
#include "qat/activations/activation_quantizer.h"

namespace crumb::qat {

class EdgeQuantizers {
 public:
  /// Registers the quantizers with `owner`, under the names of their first edges.
  EdgeQuantizers(const std::vector<graph::PlannedEdge>& edges, torch::nn::Module& owner);

  /// Returns an edge's values as quantized, with gradients to them and to the scale.
  at::Tensor quantized(std::size_t edge, const at::Tensor& values) const;

  float scale(std::size_t edge) const;  ///< as it is now; 0 for dynamic quantizers
  float zero_point(std::size_t edge) const;

  /// Takes what calibration found, for the same edges.
  void set(const std::vector<graph::PlannedEdge>& calibrated);

 private:
  std::vector<graph::PlannedEdge> edges_;
  std::vector<std::shared_ptr<ActivationQuantizer>> groups_;  ///< indexed by scale group
};

/// Returns the graph that trains: it has one quantizer node on each edge, and one on what a cache keeps,
/// whose own scales are placeholders; weights and biases stay as they are. The nodes' constants do not train.
graph::Graph with_edge_quantizers(const graph::Graph& graph, graph::QuantPlan plan);

}  // namespace crumb::qat

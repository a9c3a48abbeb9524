// The layers of a network whose weights can be rounded by what samples bring to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/quantize/plan.h"
#include "ptq/second_moments.h"

namespace crumb::ptq {

/// A layer y = W x with a constant W that nobody else takes: MatMul and Gemm of a constant matrix, and Conv, where x is what a
/// window shows. W's rows are outputs; a convolution of several groups has as many rows for each, with an x of its own.
struct SampledLayer {
  std::size_t constant = 0;  ///< of the plan
  std::size_t node = 0;
  std::string input;        ///< the value that x comes from
  std::size_t groups = 1;   ///< of a convolution
  std::size_t rows = 0;     ///< of a group
  std::size_t columns = 0;  ///< of x
  bool is_window = false;

  /// Whether both have the same x.
  bool takes_like(const SampledLayer& other, const graph::Graph& graph) const;
};

/// Those of the plan's constants that become codes, in the graph's order; where `open`, those that have none yet.
std::vector<SampledLayer> sampled_layers(const graph::Graph& graph, const graph::QuantPlan& plan,
                                         bool open = true);

/// What the value brings to the layer, for each group, some samples at a time. Throws Error where the shapes do not fit.
void visit_samples(const graph::Node& node, const graph::Graph& graph, const SampledLayer& layer,
                   const graph::Tensor& value,
                   const std::function<void(std::size_t group, const SampleColumns&)>& visit);

}  // namespace crumb::ptq

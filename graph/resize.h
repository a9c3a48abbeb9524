// What a Resize or Upsample node does to each axis of its input, whatever its operator set says it with: the one place
// that both engines and the passes read it from.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/interpolation.h"

namespace crumb::graph {

struct ResizePlan {
  ResizeRule rule;
  std::vector<ResizedAxis> axes;  ///< one for every axis of the input
  float extrapolation = 0;        ///< outputs that tf_crop_and_resize has no input for

  std::vector<std::size_t> moving() const;  ///< axes on which something happens
};

/// Values of the node's inputs beside the data; empty where they are left out.
struct ResizeInputs {
  std::vector<float> region, scales;
  std::vector<std::int64_t> sizes;
};

/// Which input of the node holds scales; nothing where an attribute does.
std::optional<std::size_t> scales_input(const Node& node);

/// How the node reads coordinates. Throws Error, which names the node, where a mode is unknown.
ResizeRule resize_rule(const Node& node);

/// Of a node Resize or Upsample of any operator set. Throws Error, which names the node, where modes are unknown, scales or
/// sizes are missing, not as many as axes or out of range, and where an empty axis would have to grow.
ResizePlan plan_resize(const Node& node, std::span<const std::int64_t> shape, const ResizeInputs& inputs);

}  // namespace crumb::graph

// What a Resize or Upsample node of any operator set does to each axis of its input. Both engines and the
// passes read it here.
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
  float extrapolation = 0;        ///< value of outputs outside the input, for tf_crop_and_resize

  std::vector<std::size_t> moving() const;  ///< axes that Resize changes
};

/// Values of the node's inputs other than the data; empty where the node leaves them out.
struct ResizeInputs {
  std::vector<float> region, scales;
  std::vector<std::int64_t> sizes;
};

/// Returns the index of the input with the scales; nothing where an attribute has them.
std::optional<std::size_t> scales_input(const Node& node);

/// Returns how the node maps coordinates. Throws Error, which names the node, where a mode is unknown.
ResizeRule resize_rule(const Node& node);

/// Returns the plan of a Resize or Upsample node for data of this shape. Throws Error, which names the node,
/// where a mode is unknown, scales or sizes are missing, out of range or not as many as axes, and where an
/// empty axis would have to grow.
ResizePlan plan_resize(const Node& node, std::span<const std::int64_t> shape, const ResizeInputs& inputs);

}  // namespace crumb::graph

// Which axis of an input or output the samples of a batch are on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// By the names of inputs and outputs; those that are not named have samples on axis 0.
using BatchAxes = std::map<std::string, std::int64_t>;

inline std::int64_t batch_axis_of(const BatchAxes& axes, const std::string& value) {
  const auto found = axes.find(value);
  return found == axes.end() ? 0 : found->second;
}

/// Reads "NAME=AXIS" for inputs and outputs of a graph. `field`: what gives them, for messages. Throws usage
/// Error for other text, unknown names, a name that stands there twice, and an axis that the value does not
/// have, where its shape is known.
BatchAxes parse_batch_axes(const Graph& graph, const std::vector<std::string>& requests,
                           const std::string& field);

}  // namespace crumb::graph

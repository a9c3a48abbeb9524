// Compares what a file claims about its values with what they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

struct Contradiction {
  std::string value;
  std::string what;  ///< "it is annotated as UINT4, but its values reach -8..7"
  enum class Claim : std::uint8_t { kAnnotation, kAttribute, kElementType } claim = Claim::kAnnotation;
};

/// Returns claims that are wrong: annotations (finn_datatype) of constants that their numbers contradict;
/// annotations of computed values that the range rules contradict, or that cannot be parsed; output types
/// that MultiThreshold (out_dtype) and QuantAvgPool2d (obits, signed) claim, likewise; and element types of
/// computed values other than those that follow from the graph's inputs. Unknown ranges contradict nothing,
/// and neither do types that are too wide. Ordered by the values' names.
std::vector<Contradiction> contradictions(const Graph& graph);

}  // namespace crumb::graph

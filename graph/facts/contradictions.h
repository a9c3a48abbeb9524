// What a file says of its values against what they are.
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

/// Annotations (finn_datatype) of constants that their numbers do not bear out; those of computed values that the range
/// rules contradict, or that cannot be read; types that MultiThreshold (out_dtype) and QuantAvgPool2d (obits, signed)
/// claim for what they make, likewise; element types that are stated for computed values and others than those
/// that follow from the graph's inputs. What is unknown contradicts nothing, and neither does a type that is too wide.
/// In the order of the values' names.
std::vector<Contradiction> contradictions(const Graph& graph);

}  // namespace crumb::graph

// Converts networks in float16, bfloat16 and float64 to float32, in which all quantizing code computes.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// Whether the type is float16, bfloat16 or double: the floats other than float32 in which networks compute.
bool is_other_float(ElementType type);

/// Returns which of those the graph's constants, values and Casts have, each once.
std::vector<ElementType> other_floats(const Graph& graph);

/// What happens to inputs and outputs of those types.
enum class Ends : bool {
  kFloat32,  ///< they become float32
  kKept,     ///< they keep their types: a Cast follows each such input and precedes each such output
};

/// Converts every constant, value and attribute of those types to float32. Removes Casts between floats, and
/// with them their rounding to a narrow type. Finite doubles beyond float32 become its largest number. A
/// graph without such types stays as it is.
Graph to_float32(Graph graph, Ends ends);

}  // namespace crumb::graph

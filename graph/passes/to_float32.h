// Networks in float16, bfloat16 and float64 as float32 ones, which is what everything that quantizes computes in.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// float16, bfloat16, double: the types of floats that networks compute in beside float32.
bool is_other_float(ElementType type);

/// Which of those the graph's constants, values and Casts have, each once.
std::vector<ElementType> other_floats(const Graph& graph);

/// What becomes of inputs and outputs of those types.
enum class Ends : bool {
  kFloat32,  ///< float32, as everything
  kKept,     ///< their types stay: a Cast behind each such input, and before each such output
};

/// Every constant, value and attribute of those types becomes float32; Casts between floats go, which undoes what rounding to
/// a narrow type they did. Finite doubles beyond float32 become its largest number. A graph without such types stays as it is.
Graph to_float32(Graph graph, Ends ends);

}  // namespace crumb::graph

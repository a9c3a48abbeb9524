// Samples in the element type that a network takes, where another's is stored.
#pragma once

#include <string>

#include "graph/graph.h"

namespace crumb::jobs {

/// Returns the same numbers in that type; the tensor itself where it has the type, or the type is unknown.
/// Floats round to floats of fewer bits, and integers to the nearest float. Throws Error, which begins with
/// `what` and names number, index and both types, for a number that an integer type or bool does not have,
/// and for types that are no numbers.
graph::Tensor in_type(const graph::Tensor& tensor, graph::ElementType type, const std::string& what);

}  // namespace crumb::jobs

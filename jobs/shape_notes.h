// Notes on graphs whose types and shapes contradict each other, or whose operators are not ONNX's, for verbs
// that go on with them.
#pragma once

#include <string>

#include "graph/graph.h"
#include "jobs/observer.h"

namespace crumb::jobs {

/// What ONNX's shape inference finds against the graph (graph::shape_faults); empty where it finds nothing.
std::string note_of_shapes(const graph::Graph& graph);

/// Says it, if there is something to say.
void note_shapes(const graph::Graph& graph, Notes& notes);

/// Names the domains whose operators are neither ONNX's nor QONNX's, one node of each, and who runs them;
/// empty where there are none.
std::string note_of_foreign_operators(const graph::Graph& graph);
void note_foreign_operators(const graph::Graph& graph, Notes& notes);

}  // namespace crumb::jobs

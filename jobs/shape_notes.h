// Notes on graphs whose types and shapes contradict each other, or whose operators are not ONNX's, for verbs
// that accept them all the same.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "jobs/observer.h"

namespace crumb::jobs {

/// Returns the contradictions that ONNX's shape inference finds (graph::shape_faults); empty where it finds
/// none.
std::string note_of_shapes(const graph::Graph& graph);

/// Tells them to `notes`, if there are any.
void note_shapes(const graph::Graph& graph, Notes& notes);

/// Notes each input whose sizes give one of its open dimensions' names several sizes: that name is passed
/// over (graph/symbol_sizes.h). Inputs of another rank are not looked at.
std::vector<std::string> notes_of_symbols(const graph::Graph& graph,
                                          const std::map<std::string, std::vector<std::int64_t>>& sizes);

/// Whether an input has one name for several of its open dimensions: without, there are no such notes.
bool repeats_symbols(const graph::Graph& graph);

/// Returns a note of the domains whose operators are neither ONNX's nor QONNX's, with one node of each, and
/// of who runs them; empty where there are none.
std::string note_of_foreign_operators(const graph::Graph& graph);
void note_foreign_operators(const graph::Graph& graph, Notes& notes);

}  // namespace crumb::jobs

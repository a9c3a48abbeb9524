// A graph from whatever file holds one.
#pragma once

#include <filesystem>

#include "graph/graph.h"

namespace crumb::models {

/// An ONNX file, a packed file that holds a graph, or a checkpoint of a known architecture (checkpoint_graph.h: a
/// folder, or a packed file without one), told apart by content. Throws Error, which names the file.
graph::Graph read_graph(const std::filesystem::path& path);

}  // namespace crumb::models

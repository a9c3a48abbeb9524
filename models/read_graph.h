// A graph from whatever file holds one.
#pragma once

#include <filesystem>

#include "graph/graph.h"

namespace crumb::models {

/// An ONNX file, a packed file that holds a graph, or a checkpoint of a known architecture
/// (checkpoint_graph.h: a folder, or a packed file without one), told apart by content. Throws Error, which
/// names the file.
graph::Graph read_graph(const std::filesystem::path& path);

/// The same for those who run it: codes of a packed file that holds a graph stay where they lie, in a file
/// whose bytes must not change while the graph lives, and are checked when they are first used.
graph::Graph open_graph(const std::filesystem::path& path);

}  // namespace crumb::models

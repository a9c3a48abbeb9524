#include "models/read_graph.h"

#include "graph/onnx/read.h"
#include "graph/packed/crumb_graph.h"
#include "models/checkpoint_graph.h"

namespace crumb::models {

graph::Graph read_graph(const std::filesystem::path& path) {
  if (is_checkpoint(path)) return read_checkpoint_graph(path).graph;
  return graph::is_crumb_file(path) ? graph::read_crumb_graph(path) : graph::read_onnx(path);
}

}  // namespace crumb::models

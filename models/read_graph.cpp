#include "models/read_graph.h"

#include "graph/onnx/read.h"
#include "graph/packed/crumb_graph.h"
#include "models/checkpoint_graph.h"

namespace crumb::graph {

Graph read_graph(const std::filesystem::path& path) {
  if (is_checkpoint(path)) return read_checkpoint_graph(path).graph;
  return is_crumb_file(path) ? read_crumb_graph(path) : read_onnx(path);
}

}  // namespace crumb::graph

#include "models/read_graph.h"

#include "base/files/text.h"
#include "graph/onnx/read.h"
#include "graph/packed/crumb_graph.h"
#include "models/checkpoint_graph.h"

namespace crumb::models {

graph::Graph read_graph(const std::filesystem::path& path) {
  if (graph::is_crumb_file(path)) {
    const CrumbFile file = CrumbFile::open(path).take();
    if (graph::holds_graph(file.header())) return graph::graph_of(file).take(quote_text(path.string()));
  }
  return is_checkpoint(path) ? read_checkpoint_graph(path).graph : graph::read_onnx(path);
}

}  // namespace crumb::models

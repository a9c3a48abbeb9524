#include "models/read_graph.h"

#include <memory>

#include "base/files/text.h"
#include "graph/control/decide.h"
#include "graph/onnx/read.h"
#include "graph/packed/crumb_graph.h"
#include "models/checkpoint_graph.h"

namespace crumb::models {
namespace {

enum class Codes : bool { kCopied, kBorrowed };

graph::Graph graph_in(const std::filesystem::path& path, Codes codes) {
  if (graph::is_crumb_file(path)) {
    const auto file = std::make_shared<const CrumbFile>(CrumbFile::open(path).take());
    if (graph::holds_graph(file->header())) {
      return (codes == Codes::kBorrowed ? graph::graph_on(file) : graph::graph_of(*file))
          .take(quote_text(path.string()));
    }
  }
  return is_checkpoint(path) ? read_checkpoint_graph(path).graph
                             : graph::decide_control_flow(graph::read_onnx(path));
}

}  // namespace

graph::Graph read_graph(const std::filesystem::path& path) { return graph_in(path, Codes::kCopied); }

graph::Graph open_graph(const std::filesystem::path& path) { return graph_in(path, Codes::kBorrowed); }

}  // namespace crumb::models

// crumb inspect of a graph: its contents, and a drawing.
#pragma once

#include <string>
#include <vector>

#include "cli/output.h"
#include "graph/graph.h"

namespace crumb::cli {

struct InspectGraph {
  std::string file;
  std::string svg;  ///< path of the picture to write
  std::vector<std::string> shapes;
  bool tensors = false, json = false;
  bool memory = false;  ///< of a run as well
  bool all = false;     ///< every line of a drawing, however long it is
};

/// Throws Error.
void inspect_graph(const InspectGraph& options);

/// Draws the graph of a packed file or a checkpoint, with its constants as the quantizers that they come
/// from: prints it, or with options.json returns it as an object without the tensors, and draws it into
/// options.svg. Throws Error.
Json inspect_network(const InspectGraph& options, const graph::Graph& graph);

}  // namespace crumb::cli

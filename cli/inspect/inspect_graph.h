// crumb inspect of a graph: what is in it, and a drawing.
#pragma once

#include <string>
#include <vector>

#include "cli/output.h"
#include "graph/graph.h"

namespace crumb::cli {

struct InspectGraph {
  std::string file;
  std::string svg;  ///< a picture is written here
  std::vector<std::string> shapes;
  bool tensors = false, json = false;
  bool memory = false;  ///< of a run, too
  bool all = false;     ///< every line of a drawing, however long
};

/// Throws Error.
void inspect_graph(const InspectGraph& options);

/// The graph of a packed file or a checkpoint, drawn with its constants as the quantizers they come from: printed, or with
/// options.json given back as an object without the tensors, and drawn into options.svg. Throws Error.
Json inspect_network(const InspectGraph& options, const graph::Graph& graph);

}  // namespace crumb::cli

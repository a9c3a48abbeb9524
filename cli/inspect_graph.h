// crumb inspect of a graph: what is in it, and a drawing.
#pragma once

#include <string>
#include <vector>

namespace crumb::cli {

struct InspectGraph {
  std::string file;
  std::string svg;  ///< a picture is written here
  std::vector<std::string> shapes;
  bool tensors = false, json = false;
};

/// Whether the file is to be shown as a graph: an .onnx file.
bool is_graph_file(const std::string& file);

/// Throws Error.
void inspect_graph(const InspectGraph& options);

}  // namespace crumb::cli

// TorchScript archives as graphs, for those who do not see LibTorch (libtorch/capture/torchscript.h).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

class TorchScriptReader {
 public:
  virtual ~TorchScriptReader() = default;

  /// What an archive takes, in order. Throws Error where the file is no such archive, and where an input is no tensor.
  virtual std::vector<std::string> inputs(const std::filesystem::path& path) const = 0;

  /// The archive as a graph. The file holds no shapes: they are the example's, but for the batch. Throws Error.
  virtual Graph read(const std::filesystem::path& path, const std::vector<Tensor>& example) const = 0;
};

}  // namespace crumb::graph

// The interface that reads TorchScript archives as graphs, for code without LibTorch
// (libtorch/capture/torchscript.h implements it).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

class TorchScriptReader {
 public:
  virtual ~TorchScriptReader() = default;

  /// Returns the names of an archive's inputs, in order. Throws Error where the file is not such an archive,
  /// and where an input is not a tensor.
  virtual std::vector<std::string> inputs(const std::filesystem::path& path) const = 0;

  /// Returns the archive as a graph. The file has no shapes: they come from the example, except the batch.
  /// Throws Error.
  virtual Graph read(const std::filesystem::path& path, const std::vector<Tensor>& example) const = 0;
};

}  // namespace crumb::graph

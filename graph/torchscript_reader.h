// The interface that reads TorchScript archives as graphs, for code without LibTorch
// (libtorch/capture/torchscript.h implements it).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// An argument of an archive's forward().
struct TorchScriptArgument {
  std::string name;
  std::string type;        ///< as TorchScript writes it: "Tensor", "int", "Optional[bool]"
  bool is_tensor = false;  ///< an input of the graph, where it has no default
  bool has_default = false;

  bool is_input() const { return is_tensor && !has_default; }
};

/// How an archive runs to become a graph.
struct TorchScriptCall {
  std::vector<Tensor> inputs;  ///< for each argument that is_input()
  std::map<std::string, std::string>
      constants;                              ///< other arguments, as text: "3", "true", "0.5", "1,2", "none"
  std::vector<std::int64_t> batch_axes = {};  ///< of each input; empty: axis 0, where it runs for any batch
};

class TorchScriptReader {
 public:
  virtual ~TorchScriptReader() = default;

  /// Returns the arguments of an archive's forward(), in order. Throws Error where the file is not such an
  /// archive.
  virtual std::vector<TorchScriptArgument> arguments(const std::filesystem::path& path) const = 0;

  /// Returns the archive as a graph, with the constants in it. The file has no shapes: they come from the
  /// inputs, except the batch. Throws Error, of kind kUsage where a constant's text is none of its type.
  virtual Graph read(const std::filesystem::path& path, const TorchScriptCall& call) const = 0;
};

}  // namespace crumb::graph

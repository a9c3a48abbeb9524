// TorchScript archives for verbs that take graphs: an archive becomes the graph of one call of its forward().
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "jobs/observer.h"

namespace crumb::jobs {

/// Whether a file is an archive with code/ inside, as torch.jit.save writes.
bool is_torchscript(const std::filesystem::path& path);

/// What an archive is called with. Files of an archive hold no shapes and no types of inputs.
struct TorchScriptExample {
  /// [NAME=]X.npy for inputs, or a folder of .npy, whose first is taken.
  std::vector<std::string> inputs = {};
  std::string inputs_field = "inputs";  ///< what gives them, for messages
  /// Of inputs in float32 without an array.
  std::map<std::string, std::vector<std::int64_t>> shapes = {};
  std::vector<std::string> arguments = {};   ///< NAME=VALUE: arguments that are no tensors
  std::vector<std::string> batch_axes = {};  ///< NAME=AXIS: inputs whose samples are not on axis 0
  /// Of an array with more samples these are taken, the first; 0: all.
  std::int64_t most_samples = 0;
  /// What inputs and batch_axes call forward()'s inputs, where they go by another network's names: a name
  /// that forward() has too is the same input; where it does not have them all, they follow its order. Empty:
  /// its own.
  std::vector<std::string> called = {};
  bool narrows = true;  ///< arrays in float64, which NumPy makes by default, are float32
};

struct TorchScriptGraph {
  graph::Graph graph;
  std::vector<graph::Tensor> inputs;  ///< those that it was called with
};

/// Opens LibTorch and runs the archive: it is a program. Throws usage Error for arguments that are missing,
/// naming argument, type and field, and Error where the archive is no graph (libtorch/capture/torchscript.h).
TorchScriptGraph read_torchscript(const std::filesystem::path& path, const TorchScriptExample& example,
                                  const Observer& observer);

/// Reads a graph's file, a checkpoint of a known architecture, or a TorchScript archive. Throws what
/// read_torchscript() throws, and usage Error where inputs or arguments are given and the file is no archive.
graph::Graph read_graph_or_archive(const std::filesystem::path& path, const TorchScriptExample& example,
                                   const Observer& observer);

}  // namespace crumb::jobs

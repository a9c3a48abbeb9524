// A network that somebody brings along, and what it shall learn: without LibTorch.
#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"

namespace crumb::tasks {

/// Samples lie along axis 0.
struct OwnNetwork {
  std::string name;    ///< of its file
  graph::Graph graph;  ///< one input, float32; its first output is what is scored
  std::string
      loss;  ///< "ce": scores of classes, targets are whole numbers; "mse": targets are what it shall give
  graph::Tensor inputs, targets;
  graph::Tensor test_inputs, test_targets;
  std::uint32_t fingerprint = 0;  ///< CRC-32 of the files' contents, that states of other data are known
};

}  // namespace crumb::tasks

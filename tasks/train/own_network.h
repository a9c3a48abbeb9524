// A network that somebody brings along, and what it shall learn: without LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graph/graph.h"

namespace crumb::tasks {

/// Samples along axis 0, as many of both and at least one, and where they are from, for errors: --data "x.npy".
struct OwnSamples {
  graph::Tensor inputs, targets;
  std::string inputs_from, targets_from;
};

/// Number i is held out for validation where i % kHoldOutEvery is the last remainder.
inline constexpr std::int64_t kHoldOutEvery = 5;

struct OwnNetwork {
  std::string name;    ///< of its file
  graph::Graph graph;  ///< one input, float32; its first output is what is scored
  std::string
      loss;  ///< "ce": scores of classes, targets are whole numbers; "mse": targets are what it shall give
  OwnSamples train;
  std::optional<OwnSamples>
      valid;  ///< none: some of those above are held out, which are kHoldOutEvery at least
  std::uint32_t fingerprint = 0;  ///< CRC-32 of the files' contents, that states of other data are known
};

}  // namespace crumb::tasks

// A user's network, and the samples that it shall learn: without LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graph/graph.h"

namespace crumb::tasks {

/// Samples along axis 0, as many inputs as targets and at least one, and their source, for errors: --data
/// "x.npy".
struct OwnSamples {
  graph::Tensor inputs, targets;
  std::string inputs_from, targets_from;
};

/// Sample i is held out for validation where i % kHoldOutEvery == kHoldOutEvery - 1.
inline constexpr std::int64_t kHoldOutEvery = 5;

struct OwnNetwork {
  std::string name;    ///< its file's name
  graph::Graph graph;  ///< one float32 input; its first output is scored
  std::string loss;    ///< "ce": scores of classes, targets are whole numbers; "mse": targets are outputs
  OwnSamples train;
  std::optional<OwnSamples> valid;  ///< none: some of `train` are held out, which has at least kHoldOutEvery
  std::uint32_t fingerprint = 0;    ///< CRC-32 of the files' contents, which tells states of other data
};

}  // namespace crumb::tasks

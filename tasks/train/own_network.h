// A user's network, and the samples that it shall learn: without LibTorch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/batch_axes.h"
#include "graph/graph.h"

namespace crumb::tasks {

/// What one input takes, or one output shall give: samples along the batch axis of that value, at least one.
struct OwnArray {
  graph::Tensor values;
  std::string from;  ///< its source, for errors: --data "x.npy"
};

/// As many samples in every array.
struct OwnSamples {
  std::vector<OwnArray> inputs;             ///< in the order of the graph's inputs
  std::map<std::string, OwnArray> targets;  ///< by the names of the outputs that have labels
};

/// Sample i is held out for validation where i % kHoldOutEvery == kHoldOutEvery - 1.
inline constexpr std::int64_t kHoldOutEvery = 5;

/// What an output learns.
struct OwnOutput {
  enum class Aim : std::uint8_t {
    kLabels,  ///< what its targets say
    kHeld,    ///< what the network of the file gives
    kFree,    ///< nothing: it follows from what the others learn
  };
  std::string name;
  Aim aim = Aim::kHeld;
  std::string loss;  ///< of labels. "ce": scores of classes, targets are whole numbers; "mse": targets are
                     ///< outputs. Of a held one: "kl": distributions, or their logits; "": numbers
  std::optional<std::int64_t> class_axis = {};  ///< with "kl": of the classes in the output; none: its last
  double weight = 1;  ///< factor of its loss in the sum; more than 0, of a free one 0
};

struct OwnNetwork {
  std::string name;    ///< its file's name
  graph::Graph graph;  ///< one input at least
  /// The graph's outputs. One at least has labels; the first that has is the one whose score is the run's.
  std::vector<OwnOutput> outputs;
  graph::BatchAxes batch_axes;  ///< where inputs and outputs have samples
  OwnSamples train;
  std::optional<OwnSamples> valid;  ///< none: some of `train` are held out, which has at least kHoldOutEvery
  std::uint32_t fingerprint = 0;    ///< CRC-32 of the files' contents, which tells states of other data
  std::vector<std::string> notes;   ///< what a person should know of it

  std::int64_t axis_of(const std::string& value) const { return graph::batch_axis_of(batch_axes, value); }
};

}  // namespace crumb::tasks

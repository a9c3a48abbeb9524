// A transposed convolution of integers as a convolution of stride 1 that has channels for each phase of its
// outputs (ops/transposed.h), so that every kernel of convolutions computes it; Phases (domain.h) brings the
// results into their places.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "runtime/lower/chain.h"
#include "runtime/lower/weights.h"

namespace crumb::runtime {

struct PhaseConvolution {
  graph::Node convolution;            ///< inputs and outputs are those of the transposed one
  IntegerWeight weight;               ///< rows are [groups, phases, outputs of a group]
  std::vector<std::size_t> channels;  ///< of the transposed one, that each row computes
  graph::Node phases;                 ///< without inputs and outputs

  /// What has a number for each channel, with one for each row; a single number stays one.
  std::vector<double> by_row(const std::vector<double>& numbers) const;
  std::vector<ChainStep> by_row(std::vector<ChainStep> steps) const;
};

/// `node` is a ConvTranspose, `weight` its weight, whose channels are those of one group; `input` the sizes
/// of its spatial axes, empty where they are not known. A Failure says why it is none.
Result<PhaseConvolution> phase_convolution(const graph::Node& node, const IntegerWeight& weight,
                                           const std::vector<std::int64_t>& input);

}  // namespace crumb::runtime

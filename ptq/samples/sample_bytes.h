// What the values of one sample take as a network runs: how many samples fit side by side.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace crumb::ptq {

/// The most bytes of values that are alive at once while the nodes run in order on one of these inputs' samples: a value lives
/// from its node to the last that takes it. Axis 0 of each input counts samples. Of a value whose size is not known, as much as the
/// largest that its node takes. Nothing where the axis cannot have 1 and 2 samples, or an output's does not follow it. Precondition: the
/// graph is sorted.
std::optional<std::uint64_t> bytes_of_sample(const graph::Graph& graph,
                                             const std::vector<graph::Tensor>& inputs);

}  // namespace crumb::ptq

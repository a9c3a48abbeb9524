// Estimates the memory of one sample's values while a network runs, and so how many samples fit.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/batch_axes.h"
#include "graph/graph.h"

namespace crumb::ptq {

/// Returns the most bytes of values alive at once while the nodes run in order on one sample of these inputs:
/// a value lives from its node to its last consumer. Axis 0 of each input and output counts samples, or the
/// one that `axes` names. A value of unknown
/// size counts as much as the largest input of its node. Nothing where the axis cannot have 1 and 2 samples,
/// or an output's does not follow it. Precondition: the graph is sorted.
std::optional<std::uint64_t> bytes_of_sample(const graph::Graph& graph,
                                             const std::vector<graph::Tensor>& inputs,
                                             const graph::BatchAxes& axes = {});

}  // namespace crumb::ptq

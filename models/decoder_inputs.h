// What a decoder's graph (models/decoder.h) takes for sequences with nothing before them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace crumb::models {

/// `ids` [batch, sequence], row by row; each row is a sequence by itself, of tokens alone. In the order of the graph's inputs.
/// Throws Error for an input that is no decoder's. Precondition: batch divides their number.
std::vector<graph::Tensor> decoder_inputs(const graph::Graph& graph, std::span<const std::int64_t> ids,
                                          std::size_t batch);

}  // namespace crumb::models

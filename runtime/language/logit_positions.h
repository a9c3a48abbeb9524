// A language model's graph that computes the logits of some positions only: the head is the largest matrix of
// small models, and the logits are their largest value.
#pragma once

#include "graph/graph.h"

namespace crumb::runtime {

inline constexpr const char* kLogitPositions = "logit_places";

/// Returns the graph with one more input at the end, kLogitPositions, int64 [kept]: the positions of the run,
/// counted from 0, that have logits. The output `logits` is [batch, kept, vocabulary] then, and values
/// between the last norm and the logits are computed for those positions only. A graph whose logits do not
/// follow from a norm (RMSNormalization, LayerNormalization) is returned as it is. Precondition: the graph
/// has an output `logits`, which is [batch, positions, vocabulary].
graph::Graph with_logit_positions(graph::Graph graph);

}  // namespace crumb::runtime

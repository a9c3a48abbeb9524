// A language model's graph that gives the logits of some positions alone: heads are the largest matrix of
// small models, and logits their largest value.
#pragma once

#include "graph/graph.h"

namespace crumb::runtime {

inline constexpr const char* kLogitPositions = "logit_places";

/// The graph with one more input at the end, kLogitPositions, int64 [kept]: which positions of the run,
/// counted from 0, have logits; the output `logits` is [batch, kept, vocabulary] then. Values between the
/// last norm and the logits are computed of those positions alone. Without a norm (RMSNormalization,
/// LayerNormalization) that the logits follow from, the graph as it is. Precondition: the graph has an output
/// `logits`, which is [batch, positions, vocabulary].
graph::Graph with_logit_positions(graph::Graph graph);

}  // namespace crumb::runtime

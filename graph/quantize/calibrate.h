// Scales of activations, from samples that run through the float network.
#pragma once

#include <functional>
#include <vector>

#include "graph/engine.h"
#include "graph/quantize/plan.h"

namespace crumb::graph {

/// Calls what it is given for each batch of samples: the inputs in the graph's order. The same batches each time.
using Batches = std::function<void(const std::function<void(const std::vector<Tensor>&)>&)>;

/// Fills in scale, zero point and range of every edge that wants a constant scale: what its search finds (statistics.h); edges of one group get the
/// largest scale among them, those with a zero point one range. An edge that sees nothing but zeros gets scale 1, and a
/// note. Memory: that of the network for a batch, and at most 4 MB an edge. Throws Error where a value is inf or NaN
/// (naming it), or a batch never reached an edge.
void calibrate(const Graph& graph, const Engine& engine, const Batches& batches, QuantPlan& plan);

/// The first half of it: each edge by itself, whatever its group. A value may stand there several times, with several specs.
void find_scales(const Graph& graph, const Engine& engine, const Batches& batches, QuantPlan& plan);

/// The second: what groups share, and what follows from other edges.
void share_scales(QuantPlan& plan);

}  // namespace crumb::graph

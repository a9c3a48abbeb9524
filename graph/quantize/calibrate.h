// Finds scales of activations from samples that run through the float network.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "graph/engine.h"
#include "graph/quantize/plan.h"

namespace crumb::graph {

/// Calls its argument with each batch of samples, as inputs in the graph's order; the same batches on every
/// call.
using Batches = std::function<void(const std::function<void(const std::vector<Tensor>&)>&)>;

/// Sets scale, zero point and range of every edge that needs a constant scale, as its search finds them
/// (statistics.h). Edges of one group share their largest scale, with a zero point their joint range. An edge
/// whose values are all zero gets scale 1, and a note. Memory: the network's for a batch, and at most 4 MB
/// for an edge. An edge in a branch that no batch took (graph/choose.h) leaves the plan, with a note. Throws
/// Error where a value, which it names, is inf or NaN, or where a batch never reached another edge.
void calibrate(const Graph& graph, const Engine& engine, const Batches& batches, QuantPlan& plan);

/// The first half: finds the scale of each edge alone, whatever its group. A value may have several edges
/// with different specs. Returns the values of edges in branches that no batch took: their scales stay 0.
std::set<std::string> find_scales(const Graph& graph, const Engine& engine, const Batches& batches,
                                  QuantPlan& plan);

/// Takes the edges of these values out of the plan, and notes it.
void leave_in_floats(QuantPlan& plan, const std::set<std::string>& values);

/// The second half: sets what groups share, and scales that follow from other edges.
void share_scales(QuantPlan& plan);

}  // namespace crumb::graph

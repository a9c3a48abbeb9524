// A graph in another version of ONNX's operator set.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "graph/graph.h"

namespace crumb::graph {

/// Every ONNX node as operator set `target` writes it: attributes that became inputs, or were inputs and are
/// attributes there, defaults that changed. What the graph computes stays the same to the bit. Other domains keep
/// their versions. Throws Error naming every node that operator set `target` cannot say, and why.
Graph with_opset(Graph graph, std::int64_t target);

/// The least operator set, at least `floor`, in which all of the graph can be said; a Failure names every node that the
/// newest one cannot say, and why.
Result<std::int64_t> find_least_opset(const Graph& graph, std::int64_t floor);

/// The same; throws where there is none.
std::int64_t least_opset(const Graph& graph, std::int64_t floor = 13);

}  // namespace crumb::graph

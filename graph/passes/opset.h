// Rewrites a graph for another version of ONNX's operator set.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "graph/graph.h"

namespace crumb::graph {

/// Returns the graph with every ONNX node as operator set `target` defines it: attributes that became inputs,
/// inputs that were attributes, changed defaults. The graph computes the same bits. Other domains keep their
/// versions. Throws Error, which names every node that operator set `target` cannot express, and why.
Graph with_opset(Graph graph, std::int64_t target);

/// Whether a node of ONNX's is of a later operator set than the graph (Node::version): readers of other
/// tools' operators, and passes, add such nodes. Files have one operator set.
bool has_newer_nodes(const Graph& graph);

/// Returns the graph in the latest operator set that a node of ONNX's has. Constants that are kept as codes
/// stay so. Throws Error as with_opset() does.
Graph with_one_opset(Graph graph);

/// Returns the least operator set, at least `floor`, that can express the whole graph. A Failure names every
/// node that the newest one cannot express, and why.
Result<std::int64_t> find_least_opset(const Graph& graph, std::int64_t floor);

/// Returns the same; throws Error where there is none.
std::int64_t least_opset(const Graph& graph, std::int64_t floor = 13);

}  // namespace crumb::graph

// Replaces nodes by others that a function writes. Internal to graph/onnx.
#pragma once

#include <functional>

#include "graph/graph.h"
#include "graph/onnx/node_writer.h"

namespace crumb::graph {

/// Calls `write` with each candidate in the order of the graph. Where it returns true, the nodes that it
/// added, one at least, take the place of that node; else that node stays. onnxruntime's domain is dropped
/// where no node of it is left.
Graph replace_nodes(Graph graph, const std::function<bool(const Node&)>& is_candidate,
                    const std::function<bool(NodeWriter&)>& write);

}  // namespace crumb::graph

// A graph as files have it: with If nodes.
#pragma once

#include "graph/graph.h"

namespace crumb::graph {

/// Replaces every Choose (choose.h) by an If whose branches are Opaque bodies, which to_proto() writes: what
/// lies on a side goes into that branch. Constants stay outside. Reading the file gives the same graph again,
/// but for an Identity where a branch gives a value from outside, or one value twice. Drops nodes on which no
/// output depends. Returns graphs without a Choose as they are.
Graph with_if_nodes(Graph graph);

/// Returns the graph as reading what is written of it gives it: nodes branch by branch, Identities added.
Graph branch_by_branch(Graph graph);

}  // namespace crumb::graph

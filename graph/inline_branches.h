// What a file's subgraphs become: the nodes of If's branches lie among the others (choose.h), and the bodies
// of Loop and Scan see what is outside through inputs. Internal to the readers of graphs.
#pragma once

#include "graph/graph.h"

namespace crumb::graph {

/// Replaces every If whose branches are Opaque bodies by their nodes and a Choose. Names of values and nodes
/// that exist already get a suffix. Bodies of Loop and Scan get an input for each value that they take from
/// outside, which the node takes, too. The graph need not be sorted. Throws Error, which names the node,
/// where branches and node differ in their outputs, or a body and its node in their inputs.
Graph inline_branches(Graph graph);

}  // namespace crumb::graph

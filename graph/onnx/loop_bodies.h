// A graph as files have it: Loop and Scan whose bodies see the values outside of them.
#pragma once

#include "graph/graph.h"

namespace crumb::graph {

/// Whether any node, or a node in the branch of an If node, is a Loop or Scan with a body.
bool has_loops(const Graph& graph);

/// Lets the bodies of Loop and Scan take values from outside by their names there, instead of as inputs, with
/// If nodes for what Choose made of them. Names within a body that something outside has get a number.
/// Loops in branches of If nodes, and in bodies, likewise. The result is for to_proto() alone.
Graph with_open_bodies(Graph graph);

}  // namespace crumb::graph

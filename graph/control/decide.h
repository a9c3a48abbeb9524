// Control flow that constants and known shapes decide.
#pragma once

#include "graph/graph.h"

namespace crumb::graph {

/// Replaces every Choose (choose.h) whose condition constants or known shapes decide by the values of that
/// side, and every Loop and Scan whose number of trips they decide by as many copies of its body
/// (unroll.h); the others stay. Returns the graph sorted; without such nodes it stays as it is. Names of
/// outputs stay.
Graph decide_control_flow(Graph graph);

}  // namespace crumb::graph

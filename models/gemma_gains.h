// Gains of norms as checkpoints have them, in networks whose constants were folded.
#pragma once

#include "graph/graph.h"

namespace crumb::models {

/// Gemma's norms multiply by 1 + NAME.weight. Passes make one constant of that, NAME.scale: here it is that
/// sum again, of the weight that gives it to the bit (of gains that none gives, nothing changes). What files
/// for other tools are made of then has the weight.
graph::Graph with_weights_of_gains(graph::Graph graph);

}  // namespace crumb::models

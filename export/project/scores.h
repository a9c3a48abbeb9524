// Classifiers without their Softmax.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::exporting {

/// Outputs that a Softmax makes become its inputs: tools read a Softmax from tables of their own, and the
/// greatest score is the greatest probability. `scores`: the names of those inputs, if anybody wants them.
graph::Graph without_last_softmax(graph::Graph graph, std::vector<std::string>* scores = nullptr);

}  // namespace crumb::exporting

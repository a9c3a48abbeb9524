// What verbs that execute graphs have in common: their inputs, and the graph as an engine takes it.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::jobs {

/// A tensor for each input of the graph. A wish is NAME=FILE, or FILE where the graph has one input (or for
/// the first that is not named). Throws Error: an unknown name, one that is given twice or not at all.
/// `field`: what the requests are called in messages.
std::vector<graph::Tensor> read_inputs(const graph::Graph& graph, const std::vector<std::string>& requests,
                                       const std::string& field);

/// Numbers to compute with, the same in every run: halves and thirds of small integers, and ones where the
/// input takes integers, which are indices nearly everywhere. Throws Error where the input's type is not
/// known, or is another. `field`: what gives it, for that.
graph::Tensor drawn_input(const graph::Graph& graph, const std::string& name,
                          const std::vector<std::int64_t>& shape, const std::string& field);

/// The graph in operators that the runtime has, as far as others are functions of them, with quantized
/// constants as codes.
graph::Graph for_runtime(graph::Graph graph);

/// The graph with quantized constants as what they stand for, as LibTorch takes it.
graph::Graph for_libtorch(graph::Graph graph);

}  // namespace crumb::jobs

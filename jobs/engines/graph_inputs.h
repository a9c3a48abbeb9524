// Inputs of graphs, and graphs as an engine takes them, for verbs that execute graphs.
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

/// Returns numbers to compute with, the same in every run: halves and thirds of small integers, and ones
/// where the input takes integers, which are nearly always indices. Throws Error where the input's type is
/// unknown or not supported; `field` is what messages tell the user to give then.
graph::Tensor drawn_input(const graph::Graph& graph, const std::string& name,
                          const std::vector<std::int64_t>& shape, const std::string& field);

/// Returns the graph in the runtime's operators, as far as others can be written with them, with quantized
/// constants as codes.
graph::Graph for_runtime(graph::Graph graph);

/// The same where products are computed in registers of some width (analysis/accumulator): they stay the
/// nodes that they are.
graph::Graph for_registers(graph::Graph graph);

/// Returns the graph with quantized constants decoded to their values, as LibTorch takes it.
graph::Graph for_libtorch(graph::Graph graph);

}  // namespace crumb::jobs

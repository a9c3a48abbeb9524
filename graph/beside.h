// Something that is added to what a product gives: adapters (adapters.h), single weights (sparse_products.h).
#pragma once

#include <cstddef>
#include <string>

#include "graph/graph.h"

namespace crumb::graph {

/// A new node whose only output is a float; that output's name, `wish` or like it.
std::string add_node(Graph& graph, const std::string& op, const std::string& wish,
                     std::vector<std::string> inputs, std::map<std::string, Attribute> attributes = {});

/// A node's output y becomes Add(y, `addend`) for all who take it. What the node itself gives gets the name y.NAME.base, the sum's
/// node STEM.sum. The graph is not sorted afterwards.
void add_to_output(Graph& graph, std::size_t node, const std::string& addend, const std::string& name,
                   const std::string& stem);

}  // namespace crumb::graph

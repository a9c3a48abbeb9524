// Something that is added to what a product gives: adapters (adapters.h), single weights (sparse_products.h).
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// A new node whose only output is a float; that output's name, `wish` or like it.
std::string add_node(Graph& graph, const std::string& op, const std::string& wish,
                     std::vector<std::string> inputs, std::map<std::string, Attribute> attributes = {});

/// What came beside a product, by first outputs of nodes.
struct Branch {
  std::string sum;      ///< now of the sum, before of the product
  std::string product;  ///< of the product, now
  std::string taker;    ///< of the node that takes the product's input, too
};

/// A node's output y becomes Add(y, `addend`) for all who take it. What the node itself gives gets the name y.NAME.base, the sum's
/// node STEM.sum; `taker` is the node that makes the addend of the product's input. The graph is not sorted afterwards.
Branch add_to_output(Graph& graph, std::size_t node, const std::string& addend, const std::string& taker,
                     const std::string& name, const std::string& stem);

/// All that stands beside products of a graph: names, and the nodes from those that take a product's input to the sums.
struct Branches {
  std::vector<Branch> sums;
  std::set<std::size_t> nodes;
};
Branches branches_of(const Graph& graph, const Links& links);

/// What such sums do to a node, if there are any: the last of them behind it, else the node.
std::size_t last_sum_behind(const Graph& graph, const Links& links, std::size_t node);

}  // namespace crumb::graph

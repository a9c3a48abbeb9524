// Branches: what is computed in parallel to a product and added to its output, as adapters (adapters.h) and
// single weights (sparse_products.h) are.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// Adds a node whose only output is a float value. Returns that value's name: `wish`, or `wish` with a suffix
/// if it is taken.
std::string add_node(Graph& graph, const std::string& op, const std::string& requested,
                     std::vector<std::string> inputs, std::map<std::string, Attribute> attributes = {});

/// A branch of a product. Nodes are named by their first outputs.
struct Branch {
  std::string sum;      ///< the node that adds: its output has the name that the product's output had before
  std::string product;  ///< the product: its output has a new name
  std::string taker;    ///< the branch's first node, which takes the product's input
};

/// Replaces a node's output y by Add(y, `addend`) for every consumer. The node's own output gets the name
/// y.NAME.base, the Add node the name STEM.sum. `taker` is the first node of the addend's branch, which takes
/// the product's input. The graph is not sorted afterwards.
Branch add_to_output(Graph& graph, std::size_t node, const std::string& addend, const std::string& taker,
                     const std::string& name, const std::string& stem);

/// All branches of a graph: their names, and their nodes from those that take a product's input to the sums.
struct Branches {
  std::vector<Branch> sums;
  std::set<std::size_t> nodes;
};
Branches branches_of(const Graph& graph, const Links& links);

/// Returns the last of the branch sums that follow a node, or the node where it has none.
std::size_t last_sum_behind(const Graph& graph, const Links& links, std::size_t node);

}  // namespace crumb::graph

// ONNX's If in a graph that has no subgraphs.
//
// The nodes of both branches lie among the others, and one node gives the results of the branch that the
// condition chose: Choose(condition, then 0, ..., then n, else 0, ..., else n) -> 0, ..., n. Passes,
// quantizing and cost see nodes and values like any others.
//
// Engines compute a branch where it is taken: a node whose results are wanted by one side of a Choose alone
// belongs to that side, and runs only where the condition says so. Nothing else is written down, so that what
// a pass puts between the nodes of a branch belongs to the branch, too.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

inline constexpr std::string_view kControlDomain = "crumb.control";
inline constexpr std::string_view kChoose = "Choose";

/// Whether the node is a Choose with a condition and, for each output, a value of each side.
bool is_choose(const Node& node);
bool has_choose(const Graph& graph);

/// Whether input `i` of a Choose belongs to the side that is taken where the condition is true. Precondition:
/// i > 0.
inline bool is_then(const Node& choose, std::size_t i) { return i <= choose.outputs.size(); }

/// On which side of which Choose each node of a sorted graph lies.
class Sides {
 public:
  static constexpr std::size_t kOutside = 0;                ///< on none: the node always runs
  static constexpr std::size_t kNowhere = ~std::size_t{0};  ///< no output depends on it: it never runs

  /// `outputs`: the values that are wanted.
  Sides(const Graph& graph, const std::vector<std::string>& outputs);

  /// The innermost side on which the node lies: kOutside, kNowhere or an index of side().
  std::size_t of(std::size_t node) const { return of_[node]; }
  bool is_on_one(std::size_t node) const { return of_[node] != kOutside && of_[node] != kNowhere; }

  struct Side {
    std::size_t around = kOutside;  ///< the side on which the Choose lies
    std::size_t choose = 0;         ///< index of the node
    bool is_then = false;
  };
  const Side& side(std::size_t index) const { return sides_[index]; }

 private:
  std::size_t depth_of(std::size_t side) const;
  std::size_t common(std::size_t a, std::size_t b) const;

  std::vector<Side> sides_{1};
  std::vector<std::size_t> of_;
};

}  // namespace crumb::graph

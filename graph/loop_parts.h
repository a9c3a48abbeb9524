// What a Loop or Scan is made of, for those who unroll or execute it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// Whether the node is a Loop or a Scan with a body. A Scan of an operator set before 9 has none here.
bool is_loop(const Node& node);

/// The body's inputs are (Loop) the trip's number, the condition and the states, or (Scan) the states and a
/// row of each sequence; values from outside come behind them. Its outputs are (Loop) the condition and the
/// states, or (Scan) the states; rows, which are stacked, come behind them. The node takes and makes the same
/// in this order, a Loop with the most trips in place of the trip's number, and without the condition among
/// its outputs.
struct LoopParts {
  std::shared_ptr<const Graph> body;
  bool is_scan = false;
  std::size_t own = 0;        ///< inputs of the body before those from outside
  std::size_t states = 0;     ///< values that a trip hands to the next
  std::size_t sequences = 0;  ///< inputs of which each trip takes a row; 0 for a Loop
  std::size_t rows = 0;       ///< outputs of which each trip makes a row
  std::vector<std::int64_t> sequence_axes, row_axes;
  std::vector<std::int64_t> sequences_backward, rows_backward;  ///< 0: from the first row on

  /// The index of the first state among the inputs, and of the first output among the body's outputs.
  std::size_t first_state() const { return is_scan ? 0 : 2; }
  std::size_t first_output() const { return is_scan ? 0 : 1; }
};

/// Throws Error, which names the node, where numbers of inputs, outputs, axes and directions contradict each
/// other. Precondition: is_loop(node).
LoopParts loop_parts(const Node& node);

/// Returns the nodes that cannot be executed of a node and, where it is a loop, of its body, whose nodes can
/// be loops too: "node 'a' (Foo)", "node 'a' (Foo) in node 'l' (Loop)". Empty: it can. A Loop or Scan
/// without a body cannot.
std::vector<std::string> unknown_nodes(const Node& node, const std::function<bool(const Node&)>& knows);

}  // namespace crumb::graph

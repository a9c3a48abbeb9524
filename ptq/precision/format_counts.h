// Counts what the formats of a space cost at run time: bit operations and registers, as analysis/cost does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/cost/cost.h"
#include "graph/quantize/plan.h"
#include "ptq/precision/format_space.h"

namespace crumb::ptq {

using InputShapes = std::map<std::string, std::vector<std::int64_t>>;

/// Returns the cost of the graph with the plan's codes and quantizers, edges calibrated. Open sizes of inputs
/// are 1 where `shapes` has none. Throws as bind_shapes() and cost_of() do.
analysis::GraphCost cost_of_plan(const graph::Graph& graph, const graph::QuantPlan& plan,
                                 const InputShapes& shapes, int threads);

/// Counts of some of a network's nodes.
struct NodeCounts {
  double bops = 0;                   ///< Amounts::bops_qap, with zeros
  std::optional<int> register_bits;  ///< the widest that data types need
  std::string widest;                ///< the node with it: its name, or its output's if it has none
  std::optional<std::string> without_register;  ///< a node without one; nothing: all have one

  void add(const analysis::NodeCost& node);
  void add(const NodeCounts& other);
};

class FormatCounts {
 public:
  /// `plans`: one for each format of activations, with everything in it, calibrated.
  FormatCounts(const FormatSpace& space, const std::vector<graph::QuantPlan>& plans,
               const InputShapes& shapes, int threads);

  /// Returns the counts of a unit with these options. Precondition: the weights' format fits.
  const NodeCounts& of(std::size_t group, std::size_t unit, std::size_t own, std::size_t shared) const {
    return counts_[group][unit][own][shared];
  }
  /// Returns the counts of all other nodes: those that formats do not change, and of `uncertain` ones the
  /// largest. What the activation formats of one group decide is counted with its first unit.
  const NodeCounts& rest() const { return rest_; }
  /// Nodes that depend on the formats of several groups, or of weights: a choice may need less than is
  /// counted.
  const std::vector<std::string>& uncertain() const { return uncertain_; }

 private:
  using Rest = std::map<std::string, std::vector<NodeCounts>>;  ///< by first output, one for each plan

  void count(const FormatSpace& space, const analysis::GraphCost& cost, std::size_t own, std::size_t shared,
             Rest& rest);
  void add_rest(const FormatSpace& space, const graph::QuantPlan& plan, const Rest& rest, std::size_t plans);

  std::vector<std::vector<std::vector<std::vector<NodeCounts>>>> counts_;
  NodeCounts rest_;
  std::vector<std::string> uncertain_;
};

}  // namespace crumb::ptq

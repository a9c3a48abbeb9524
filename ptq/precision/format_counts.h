// What the formats of a space cost when the network runs: bit operations and registers, as analysis/cost counts them.
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

/// Of the graph with the plan's codes and quantizers, edges calibrated; open sizes of inputs are 1 where no shape is given. Throws
/// as bind_shapes() and cost_of() do.
analysis::GraphCost cost_of_plan(const graph::Graph& graph, const graph::QuantPlan& plan,
                                 const InputShapes& shapes, int threads);

/// Some of a network's nodes.
struct NodeCounts {
  double bops = 0;                   ///< Amounts::bops_qap, zeros counted
  std::optional<int> register_bits;  ///< the widest that data types ask for
  std::string widest;                ///< whose it is: a node's name, or of one without a name its output's
  std::optional<std::string> without_register;  ///< one that multiplies otherwise; nothing: all have one

  void add(const analysis::NodeCost& node);
  void add(const NodeCounts& other);
};

class FormatCounts {
 public:
  /// `plans`: for each format of activations everything in it, calibrated.
  FormatCounts(const FormatSpace& space, const std::vector<graph::QuantPlan>& plans,
               const InputShapes& shapes, int threads);

  /// Of a unit, with these of its options. Precondition: the weights' one fits.
  const NodeCounts& of(std::size_t group, std::size_t unit, std::size_t own, std::size_t shared) const {
    return counts_[group][unit][own][shared];
  }
  /// Of all other nodes: those that formats do not change, and of `uncertain` the most. What one group's formats of activations
  /// decide is counted with its first unit.
  const NodeCounts& rest() const { return rest_; }
  /// Nodes that the formats of several groups decide over, or those of weights: a choice may need less than is counted.
  const std::vector<std::string>& uncertain() const { return uncertain_; }

 private:
  using Rest = std::map<std::string, std::vector<NodeCounts>>;  ///< by first output; of each plan

  void count(const FormatSpace& space, const analysis::GraphCost& cost, std::size_t own, std::size_t shared,
             Rest& rest);
  void settle(const FormatSpace& space, const graph::QuantPlan& plan, const Rest& rest, std::size_t plans);

  std::vector<std::vector<std::vector<std::vector<NodeCounts>>>> counts_;
  NodeCounts rest_;
  std::vector<std::string> uncertain_;
};

}  // namespace crumb::ptq

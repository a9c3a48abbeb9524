#include "ptq/format_counts.h"

#include <algorithm>
#include <set>

#include "base/files/interrupt.h"
#include "graph/facts/bind_shapes.h"
#include "graph/qonnx/quantized_constants.h"
#include "graph/quantize/apply.h"

namespace crumb::ptq {
namespace {

using graph::QuantPlan;

/// The codes of constants, which all plans with this format of weights have.
void round_constants(const graph::Graph& graph, QuantPlan& plan, int threads) {
  for (graph::PlannedConstant& constant : plan.constants) {
    if (constant.spec) constant.rounded = graph::codes_of(constant, graph, threads);
  }
}

}  // namespace

analysis::GraphCost cost_of_plan(const graph::Graph& graph, const QuantPlan& plan, const InputShapes& shapes,
                                 int threads) {
  return analysis::cost_of(graph::bind_shapes(
      graph::lower_or_fold_quantized(graph::apply(graph, plan, {.threads = threads})), shapes));
}

void NodeCounts::add(const analysis::NodeCost& node) {
  const std::string& name = node.name.empty() ? node.made : node.name;
  bops += node.dense.bops_qap;
  if (!node.accumulator) {
    without_register = name;
  } else if (node.accumulator->by_types > register_bits.value_or(0)) {
    register_bits = node.accumulator->by_types;
    widest = name;
  }
}

FormatCounts::FormatCounts(const FormatSpace& space, const std::vector<QuantPlan>& plans,
                           const InputShapes& shapes, int threads) {
  for (const FormatSpace::Group& group : space.groups()) {
    auto& units = counts_.emplace_back();
    for (const FormatSpace::Unit& unit : group.units)
      units.emplace_back(unit.options(), std::vector<NodeCounts>(space.shared_options(group)));
  }
  for (std::size_t own = 0; own < space.wish().weights.size(); ++own) {
    QuantPlan plan = space.plan_of(space.uniform(own, 0));
    round_constants(space.graph(), plan, threads);
    for (std::size_t shared = 0; shared < plans.size(); ++shared) {
      check_interrupt();
      plan.edges = plans[shared].edges;
      plan.biases = plans[shared].biases;
      count(space, cost_of_plan(space.graph(), plan, shapes, threads), own, shared);
    }
  }
}

void FormatCounts::count(const FormatSpace& space, const analysis::GraphCost& cost, std::size_t own,
                         std::size_t shared) {
  std::map<std::string, const analysis::NodeCost*> others;
  for (const analysis::NodeCost& node : cost.nodes) others[node.made] = &node;
  for (std::size_t g = 0; g < space.groups().size(); ++g) {
    const FormatSpace::Group& group = space.groups()[g];
    for (std::size_t u = 0; u < group.units.size(); ++u) {
      const FormatSpace::Unit& unit = group.units[u];
      NodeCounts counts;
      for (const graph::WeightedNode& weighted : unit.unit.nodes) {
        const graph::Node& node = space.graph().nodes[weighted.node];
        const auto found = others.find(node.outputs[0]);
        if (found == others.end()) {
          counts.without_register = node.name.empty() ? node.outputs[0] : node.name;
          continue;
        }
        counts.add(*found->second);
        others.erase(found);
      }
      const bool is_asked = own < unit.options() && shared < space.shared_options(group);
      if (is_asked) counts_[g][u][own][shared] = counts;
    }
  }
  NodeCounts rest;
  for (const auto& [made, node] : others) rest.add(*node);
  rest_.bops = std::max(rest_.bops, rest.bops);
  if (rest.register_bits.value_or(0) > rest_.register_bits.value_or(0)) {
    rest_.register_bits = rest.register_bits;
    rest_.widest = rest.widest;
  }
}

}  // namespace crumb::ptq

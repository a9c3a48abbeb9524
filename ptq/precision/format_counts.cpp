#include "ptq/precision/format_counts.h"

#include <algorithm>
#include <set>

#include "base/files/interrupt.h"
#include "graph/facts/bind_shapes.h"
#include "graph/qonnx/quantized_constants.h"
#include "graph/quantize/apply.h"
#include "ptq/precision/deciding_groups.h"

namespace crumb::ptq {
namespace {

using graph::QuantPlan;

/// Rounds the constants to codes, which all plans with this format of weights share.
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

void NodeCounts::add(const NodeCounts& other) {
  bops += other.bops;
  if (other.without_register) without_register = other.without_register;
  if (other.register_bits.value_or(0) <= register_bits.value_or(0)) return;
  register_bits = other.register_bits;
  widest = other.widest;
}

FormatCounts::FormatCounts(const FormatSpace& space, const std::vector<QuantPlan>& plans,
                           const InputShapes& shapes, int threads) {
  for (const FormatSpace::Group& group : space.groups()) {
    auto& units = counts_.emplace_back();
    for (const FormatSpace::Unit& unit : group.units)
      units.emplace_back(unit.options(), std::vector<NodeCounts>(space.shared_options(group)));
  }
  Rest rest;
  for (std::size_t own = 0; own < space.requested().weights.size(); ++own) {
    QuantPlan plan = space.plan_of(space.uniform(own, 0));
    round_constants(space.graph(), plan, threads);
    for (std::size_t shared = 0; shared < plans.size(); ++shared) {
      check_interrupt();
      plan.edges = plans[shared].edges;
      plan.biases = plans[shared].biases;
      count(space, cost_of_plan(space.graph(), plan, shapes, threads), own, shared, rest);
    }
  }
  add_rest(space, plans.at(0), rest, plans.size());
}

void FormatCounts::count(const FormatSpace& space, const analysis::GraphCost& cost, std::size_t own,
                         std::size_t shared, Rest& rest) {
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
  for (const auto& [made, node] : others) {
    NodeCounts counts;
    counts.add(*node);
    counts.without_register.reset();  // it is no layer to choose for
    rest[made].push_back(counts);
  }
}

void FormatCounts::add_rest(const FormatSpace& space, const QuantPlan& plan, const Rest& rest,
                            std::size_t plans) {
  const DecidingGroups deciding(space, plan);
  const auto is_like = [](const NodeCounts& one, const NodeCounts& other) {
    return one.bops == other.bops && one.register_bits == other.register_bits;
  };
  for (const auto& [made, of_plans] : rest) {
    const std::vector<NodeCounts>& counts = of_plans;
    if (std::ranges::all_of(counts, [&](const NodeCounts& one) { return is_like(one, counts[0]); })) {
      rest_.add(counts[0]);
      continue;
    }
    // In the order of plans: all activation formats for the first weight format, then for the next.
    bool follows_activations = counts.size() % plans == 0;
    for (std::size_t i = plans; i < counts.size() && follows_activations; ++i)
      follows_activations = is_like(counts[i], counts[i % plans]);
    const std::optional<std::size_t> group = deciding.only_one(made);
    if (group && follows_activations) {
      for (auto& by_shared : counts_[*group][0])
        for (std::size_t shared = 0; shared < by_shared.size(); ++shared)
          by_shared[shared].add(counts[shared]);
      continue;
    }
    NodeCounts most = counts[0];
    for (const NodeCounts& one : counts) {
      most.bops = std::max(most.bops, one.bops);
      most.register_bits = std::max(most.register_bits, one.register_bits);
      if (!one.widest.empty()) most.widest = one.widest;
    }
    rest_.add(most);
    uncertain_.push_back(made);
  }
}

}  // namespace crumb::ptq

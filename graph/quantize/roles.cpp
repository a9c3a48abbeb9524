#include "graph/quantize/roles.h"

#include <algorithm>
#include <cmath>

#include "graph/edit.h"
#include "graph/operator_traits.h"

namespace crumb::graph {
namespace {

bool moves_or_picks(const Graph& graph, const Node& node) {
  return is_any(node, trait::kPicks) || moves_elements(graph, node);
}

/// Statistics: one number for many. ReduceLogSum and the like reduce, too.
bool reduces(const Node& node) { return node.op.starts_with("Reduce") && node.domain.empty(); }

}  // namespace

Roles::Roles(const Graph& graph, const Links& links, const Constants& constants,
             const std::set<std::string>& in_floats)
    : graph_(graph), links_(links), constants_(constants), in_floats_(in_floats) {}

bool Roles::passes_integers_on(std::size_t node) {
  const auto [found, is_new] = passes_on_.emplace(node, false);
  if (!is_new) return found->second;
  bool passes = false;
  std::vector<std::string> open = graph_.nodes[node].outputs;
  std::set<std::string> seen;
  while (!open.empty() && !passes) {
    const std::string value = std::move(open.back());
    open.pop_back();
    if (value.empty() || !seen.insert(value).second) continue;
    for (const std::size_t index : links_.consumers(value)) {
      const Node& taker = graph_.nodes[index];
      const OperatorTraits& traits = traits_of(taker);
      const ActivationInputs takes = activation_inputs(graph_, taker, constants_);
      const bool is_data =
          !in_floats_.contains(taker.outputs[0]) &&
          std::ranges::any_of(takes.inputs, [&](std::size_t input) { return taker.inputs[input] == value; });
      if (is_data && traits.is(trait::kMultiplies | trait::kRecurrent)) {
        passes = passes || !is_of_spectrum(index);
      } else if (is_data && (!traits.is(trait::kAdds) || is_residual_sum(index))) {
        passes = passes || passes_integers_on(index);
      } else if (taker.is("Relu") || taker.is("Clip") || moves_elements(graph_, taker)) {
        open.push_back(taker.outputs[0]);
      }
    }
  }
  return passes_on_[node] = passes;
}

bool Roles::is_residual_sum(std::size_t index) {
  const Node& node = graph_.nodes[index];
  std::set<std::string> common = dominators(node.inputs[0]);
  bool all_multiply = true;
  for (const std::string& input : node.inputs) {
    const std::size_t producer = made_by(input);
    if (producer != Links::kNone && is_square(graph_.nodes[producer])) return false;
    if (is_statistic(input)) return false;
    all_multiply = all_multiply && multiplies_elements(input);
    const std::set<std::string>& others = dominators(input);
    std::erase_if(common, [&](const std::string& value) { return !others.contains(value); });
  }
  return !all_multiply && common.empty();
}

bool Roles::is_of_spectrum(std::size_t node) {
  std::set<std::string> seen;
  return ends_in_spectrum(graph_.nodes[node].outputs[0], seen);
}

/// Returns the values that every path from the graph inputs to a value passes through, as far back as
/// elements are computed one by one.
const std::set<std::string>& Roles::dominators(const std::string& value) {
  if (const auto found = dominators_.find(value); found != dominators_.end()) return found->second;
  std::set<std::string> all;
  const std::size_t producer = links_.producer(value);
  const bool is_elementwise =
      producer != Links::kNone && is_any(graph_.nodes[producer], trait::kOfOne | trait::kOfSeveral);
  if (is_elementwise) {
    bool is_first = true;
    for (const std::string& input : graph_.nodes[producer].inputs) {
      if (input.empty() || constants_.contains(input)) continue;
      const std::set<std::string>& those = dominators(input);
      if (is_first) all = those;
      if (!is_first) std::erase_if(all, [&](const std::string& one) { return !those.contains(one); });
      is_first = false;
    }
  }
  all.insert(value);
  return dominators_[value] = std::move(all);
}

bool Roles::is_square(const Node& node) const {
  if (node.is("Mul")) return node.inputs.at(0) == node.inputs.at(1);
  if (!node.is("Pow")) return false;
  const Tensor* power = constant_input(graph_, node, 1);
  return power && power->size() == 1 && std::fmod(power->to_floats()[0], 2.0F) == 0;
}

/// Returns the node that computed a value before it was moved.
std::size_t Roles::made_by(std::string value) const {
  for (;;) {
    const std::size_t producer = links_.producer(value);
    if (producer == Links::kNone || !moves_or_picks(graph_, graph_.nodes[producer])) return producer;
    value = graph_.nodes[producer].inputs[0];
  }
}

bool Roles::multiplies_elements(const std::string& value) const {
  const std::size_t producer = made_by(value);
  return producer != Links::kNone && is_any(graph_.nodes[producer], trait::kOfSeveral) &&
         !is_any(graph_.nodes[producer], trait::kAdds | trait::kJoins);
}

bool Roles::is_statistic(const std::string& value) const {
  const std::size_t producer = made_by(value);
  return producer != Links::kNone && reduces(graph_.nodes[producer]) &&
         !is_average_pool(graph_, graph_.nodes[producer]);
}

bool Roles::only_constants_beside(const Node& node) const {
  return std::ranges::count_if(node.inputs, [&](const std::string& input) {
           return !input.empty() && !constants_.contains(input);
         }) == 1;
}

/// Whether squares are summed, or their root or logarithm is taken: an activation function multiplies them
/// again.
bool Roles::is_summed_up(const std::string& value) const {
  return std::ranges::all_of(links_.consumers(value), [&](std::size_t index) {
    const Node& node = graph_.nodes[index];
    if (moves_or_picks(graph_, node) || node.is("Concat")) return is_summed_up(node.outputs[0]);
    return is_any(node, trait::kAdds) || reduces(node) || node.is("Sqrt") || node.is("Log") || node.is("Pow");
  });
}

bool Roles::ends_in_spectrum(const std::string& value, std::set<std::string>& seen) const {
  if (!seen.insert(value).second) return true;
  if (links_.is_output(value) || links_.consumers(value).empty()) return false;
  return std::ranges::all_of(links_.consumers(value), [&](std::size_t index) {
    const Node& node = graph_.nodes[index];
    if (node.is("Log") || node.is("ReduceL2") || node.is("ReduceSumSquare")) return true;
    if (is_square(node)) return is_summed_up(node.outputs[0]);
    const bool scales = is_any(node, trait::kOfSeveral) && only_constants_beside(node);
    const bool is_linear =
        is_any(node, trait::kAdds) || (is_any(node, trait::kMultiplies) && only_constants_beside(node));
    const bool keeps = scales || is_linear || moves_or_picks(graph_, node) || node.is("Concat") ||
                       node.is("Clip") || node.is("Neg");
    return keeps && std::ranges::all_of(node.outputs, [&](const std::string& output) {
             return output.empty() || ends_in_spectrum(output, seen);
           });
  });
}

}  // namespace crumb::graph

#include "graph/quantize/rules.h"

#include <algorithm>
#include <set>

#include "base/files/text.h"
#include "graph/adapters.h"
#include "graph/buffers.h"
#include "graph/quantized_constant.h"
#include "graph/strided_index.h"
#include "graph/weighted_product.h"
#include "quant/misfits.h"
#include "quant/recipe/rule_reach.h"

namespace crumb::graph {
namespace {

class ConstantRules {
 public:
  ConstantRules(const Graph& graph, const Constants& constants, const Recipe& recipe,
                const std::set<std::string>& left_out)
      : graph_(graph), constants_(constants), recipe_(recipe), left_out_(left_out) {}

  RuledGraph run() {
    collect_constants();
    const RuledActivations usual{.spec = recipe_.activations};
    result_.nodes.assign(graph_.nodes.size(), usual);
    for (const std::string& input : graph_.inputs) {
      result_.inputs[input] = {.spec = recipe_.inputs ? *recipe_.inputs : recipe_.activations};
    }
    follow_rules();
    check_constants();
    return std::move(result_);
  }

 private:
  void collect_constants() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const std::string& input : graph_.nodes[i].inputs) users_[input].push_back(i);
    }
    for (const auto& [name, tensor] : graph_.initializers) {
      if (tensor.type() != ElementType::kFloat || !users_.contains(name)) continue;
      result_.constants[name] = {.node = users_[name][0], .kept_because = "no weight of an operator"};
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      for (const WeightInput& weight : weight_inputs(graph_, node, constants_)) {
        const auto found = result_.constants.find(node.inputs[weight.input]);
        if (found == result_.constants.end()) continue;  // quantized already, or computed
        if (is_of_adapter(found->first)) {
          found->second.kept_because = "an adapter's";
          continue;
        }
        take(found->first, found->second, weight, i);
      }
    }
    for (auto& [name, constant] : result_.constants) {
      const bool is_embedding = constant.role == RuledConstant::Role::kEmbedding;
      if (constant.role == RuledConstant::Role::kOther) continue;
      constant.spec = is_embedding ? recipe_.embeddings : recipe_.weights;
      constant.kept_because = constant.spec  ? ""
                              : is_embedding ? "the recipe says embeddings: keep"
                                             : "the recipe says weights: keep";
      if (!is_embedding) constant.accumulator = recipe_.accumulator;
      if (!is_embedding) constant.prune = recipe_.prune;
      constant.learned_bits = !is_embedding && recipe_.learned_bits;
      constant.scales = recipe_.scales;
    }
  }

  void take(const std::string& name, RuledConstant& constant, const WeightInput& weight, std::size_t node) {
    if (constant.role != RuledConstant::Role::kOther) {
      if (constant.axes != MatrixAxes(weight.output_axis, weight.stack_axes)) two_axes_[name] = node;
      if (weight.is_embedding)
        constant.role = RuledConstant::Role::kEmbedding;  // also if it is the head, too
      return;
    }
    constant.role = weight.is_embedding ? RuledConstant::Role::kEmbedding : RuledConstant::Role::kWeight;
    constant.node = node;
    constant.axes = {weight.output_axis, weight.stack_axes};
  }

  bool is_kind(const Rule::Match& match, const Node& node) const {
    const bool op = match.op.empty() ||
                    std::ranges::any_of(match.op, [&](const auto& name) { return is_called(node, name); });
    return op && (!match.depthwise || (*match.depthwise == is_depthwise(graph_, node) &&
                                       (*match.depthwise || is_convolution(node))));
  }

  static Rule::Role role_of(RuledConstant::Role role) {
    return role == RuledConstant::Role::kWeight      ? Rule::Role::kWeight
           : role == RuledConstant::Role::kEmbedding ? Rule::Role::kEmbedding
                                                     : Rule::Role::kAny;
  }

  void follow_rules() {
    RuleSubjects subjects;
    std::vector<RuledConstant*> constants;
    const std::set<std::string> own = buffers(graph_);
    for (auto& [name, constant] : result_.constants) {
      if (own.contains(name)) continue;  // the network's own numbers: frequencies, a mask
      subjects.tensors.push_back({.name = name, .role = role_of(constant.role), .users = users_[name]});
      constants.push_back(&constant);
    }
    for (const Node& node : graph_.nodes) subjects.nodes.push_back(node.name);
    subjects.inputs = graph_.inputs;
    subjects.left_out = {left_out_.begin(), left_out_.end()};
    subjects.is_kind = [&](const Rule::Match& match, std::size_t i) {
      return is_kind(match, graph_.nodes[i]);
    };
    for_each_reached(
        recipe_.rules, subjects,
        {.tensor = [&](const RuleReached& by, std::size_t i) { return say(by, *constants[i]); },
         .node = [&](const RuleReached& by, std::size_t i) { return set_activations(by, result_.nodes[i]); },
         .input = [&](const RuleReached& by,
                      std::size_t i) { return set_activations(by, result_.inputs.at(graph_.inputs[i])); }});
  }

  /// Sets what the rule says about activations; returns whether it says anything.
  static bool set_activations(const RuleReached& by, RuledActivations& activations) {
    const Rule& rule = by.rule;
    if (!rule.activations && !rule.skips()) return false;
    if (!rule.match.role.empty() && !rule.activations) return false;  // the rule is about tensors
    activations = {.spec = rule.activations ? *rule.activations : SpecOrKeep{},
                   .rule = by.number,
                   .skips = rule.skips()};
    return true;
  }

  /// Sets what the rule says about a constant; returns whether it says anything.
  static bool say(const RuleReached& by, RuledConstant& constant) {
    const Rule& rule = by.rule;
    if (!rule.leaves_weights) constant.learned_bits = false;  // the rule gives the width
    const bool is_trained = set_training(rule, constant);
    if (rule.leaves_weights) return is_trained;
    constant.spec = rule.weights;
    if (rule.skips()) constant.prune.reset();  // the weight stays as it is
    constant.kept_because = rule.weights ? "" : "excluded by " + by.who;
    return true;
  }

  /// Sets how this weight is trained; returns whether the rule says so. Only products have accumulators:
  /// tables have none, and are not pruned.
  static bool set_training(const Rule& rule, RuledConstant& constant) {
    const bool adds_up = constant.role == RuledConstant::Role::kWeight;
    if (rule.accumulator && adds_up) constant.accumulator = *rule.accumulator;
    if (rule.scales) constant.scales = *rule.scales;
    if (rule.prune && adds_up) constant.prune = *rule.prune;
    if (rule.learned_bits && adds_up) constant.learned_bits = *rule.learned_bits;
    return rule.scales || ((rule.accumulator || rule.prune || rule.learned_bits) && adds_up);
  }

  void check_constants() const {
    std::vector<std::string> faults;
    for (const auto& [name, constant] : result_.constants) {
      if (!constant.spec) continue;
      const bool one_scale = constant.spec->granularity == Granularity::kTensor;
      if (const auto other = two_axes_.find(name); other != two_axes_.end() && !one_scale) {
        faults.push_back(quote_text(name) + ": " + text_of(graph_.nodes[constant.node]) + " and " +
                         text_of(graph_.nodes[other->second]) +
                         " have their outputs on different axes of it; one scale for the tensor fits both");
        continue;
      }
      const auto misfit = misfit_of(*constant.spec, graph_.initializers.at(name).shape(), constant.axes);
      if (misfit)
        faults.push_back(quote_text(name) + " of " + text_of(graph_.nodes[constant.node]) + ": " + *misfit);
    }
    refuse_misfits(faults);
  }

  const Graph& graph_;
  const Constants& constants_;
  const Recipe& recipe_;
  const std::set<std::string>& left_out_;
  RuledGraph result_;
  std::map<std::string, std::vector<std::size_t>> users_;  // of values, by index of node
  std::map<std::string, std::size_t> two_axes_;            // constants, and the node that needs another axis
};

}  // namespace

RuledGraph apply_rules(const Graph& graph, const Constants& constants, const Recipe& recipe,
                       const std::set<std::string>& left_out) {
  return ConstantRules(graph, constants, recipe, left_out).run();
}

}  // namespace crumb::graph

#include "graph/quantize/plan.h"

#include <algorithm>
#include <set>

#include "base/files/text.h"
#include "graph/edit.h"
#include "graph/facts/bind_shapes.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/passes/passes.h"
#include "graph/quantize/edges.h"
#include "graph/quantize/operators.h"
#include "graph/quantize/rules.h"

namespace crumb::graph {
namespace {

class BiasPlanner {
 public:
  BiasPlanner(const Graph& graph, const Links& links, const Constants& constants, const Recipe& recipe,
              const PlanOptions& options, QuantPlan& plan)
      : graph_(graph), links_(links), constants_(constants), recipe_(recipe), options_(options), plan_(plan) {
    for (std::size_t i = 0; i < plan.edges.size(); ++i) edges_[plan.edges[i].value] = i;
    for (const PlannedConstant& constant : plan.constants) {
      if (constant.spec) specs_[constant.value] = &*constant.spec;
    }
  }

  void run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) plan_bias(i);
    if (faults_.empty()) return;
    std::string message = "biases cannot be quantized at the scale of the input times that of the weight:";
    for (const std::string& fault : faults_) message += "\n  " + fault;
    throw Error(message + "\ngive these another spec, or let biases be kept");
  }

 private:
  void plan_bias(std::size_t index) {
    const Node& node = graph_.nodes[index];
    const auto bias = bias_of(graph_, links_, index);
    const auto weights = weight_inputs(graph_, node, constants_);
    if (!bias || weights.size() != 1) return;
    const std::string weight = node.inputs[weights[0].input];
    const auto spec = specs_.find(weight);
    const std::string value = graph_.nodes[bias->node].inputs[bias->input];
    if (spec == specs_.end() || specs_.contains(value)) return;  // a float layer, or a rule named the bias
    const std::string data = node.inputs[weights[0].input == 0 ? 1 : 0];
    const Sources sources = sources_of(graph_, links_, constants_, data, options_.choices.in_floats);
    if (const auto tokens = edges_.find(data);
        tokens != edges_.end() && plan_.edges[tokens->second].spec.is_dynamic()) {
      faults_.push_back(text_of(node) + ": its input has a scale for each token (" +
                        plan_.edges[tokens->second].spec.to_string() + "), no constant one");
      return;
    }
    std::set<std::size_t> edges;
    for (const std::string& source : sources.values) {
      if (const auto found = edges_.find(source); found != edges_.end()) edges.insert(found->second);
    }
    if (edges.empty() || edges.size() != sources.values.size()) {
      plan_.notes.push_back("the bias of " + text_of(node) + " stays: its input has no quantizer");
      return;
    }
    if (weights[0].stack_axes > 0) {
      plan_.notes.push_back("the bias of " + text_of(node) +
                            " stays: its weight is a stack of matrices, each with scales of its own");
      return;
    }
    if (const std::string fault = fault_of(*spec->second, weights[0], value, *edges.begin());
        !fault.empty()) {
      faults_.push_back(text_of(node) + ": " + fault);
      return;
    }
    plan_.biases.push_back({.value = value,
                            .made_by = graph_.nodes[bias->node].outputs[0],
                            .input = bias->input,
                            .weight = weight,
                            .edge = *edges.begin(),
                            .bits = recipe_.bias_bits});
  }

  std::string fault_of(const QuantSpec& spec, const WeightInput& weight, const std::string& bias,
                       std::size_t edge) const {
    const auto is_integer = [](const NumberFormat& number) { return number.grid == Grid::kInteger; };
    if (!is_integer(*spec.number) || !is_integer(*plan_.edges[edge].spec.number)) {
      return "input and weight have to be integers, found " + plan_.edges[edge].spec.to_string() + " and " +
             spec.to_string();
    }
    if (spec.granularity == Granularity::kTensor) return "";
    if (spec.granularity != Granularity::kChannel) {
      return "the weight has scales of groups (" + spec.to_string() +
             "), expected one for each output channel";
    }
    const Tensor& values = graph_.initializers.at(bias);
    const bool along_last = values.rank() >= 1 && values.shape().back() == values.size();
    if (!along_last || weight.input == 0) {
      return "the bias " + quote_text(bias) + " has shape " + text_of(std::span(values.shape())) +
             ", expected one number for each output channel";
    }
    return "";
  }

  const Graph& graph_;
  const Links& links_;
  const Constants& constants_;
  const Recipe& recipe_;
  const PlanOptions& options_;
  QuantPlan& plan_;
  std::map<std::string, std::size_t> edges_;
  std::map<std::string, const QuantSpec*> specs_;
  std::vector<std::string> faults_;
};

std::vector<PlannedConstant> planned_constants(const Graph& graph, const RuledGraph& rules) {
  std::vector<PlannedConstant> planned;
  for (const auto& [name, constant] : rules.constants) {
    planned.push_back({.value = name,
                       .node = text_of(graph.nodes[constant.node]),
                       .axes = constant.axes,
                       .is_weight = constant.role != RuledConstant::Role::kOther,
                       .spec = constant.spec,
                       .kept_because = constant.kept_because,
                       .accumulator = constant.accumulator,
                       .scales = constant.scales,
                       .prune = constant.prune,
                       .learned_bits = constant.learned_bits});
  }
  return planned;
}

/// Notes operators that are not quantized although a recipe seems to mean them.
void note_left(const Graph& graph, const Constants& constants, QuantPlan& plan) {
  std::set<std::string> types;
  for (const Node& node : graph.nodes) {
    for (const WeightInput& weight : weight_inputs(graph, node, constants)) {
      const std::string& value = node.inputs[weight.input];
      const Tensor* constant = graph.constant(value);
      if (graph.quantized.contains(value) || (constant && constant->type() == ElementType::kFloat)) continue;
      if (constant) {
        types.insert(std::string(name_of(constant->type())));
      } else {
        plan.notes.push_back("the weight of " + text_of(node) +
                             " stays: it is computed, or quantized already");
      }
    }
  }
  for (const std::string& type : types) {
    plan.notes.push_back("weights of type " + type + " stay: only float32 is quantized");
  }
}

/// Folding gives a weight a new name; if the old one is free, the weight gets it back, so that recipes match
/// it.
Graph with_old_names(Graph graph, const std::string& suffix) {
  drop_unused(graph);
  std::map<std::string, std::string> renamed;
  for (const auto& [name, tensor] : graph.initializers) {
    if (!name.ends_with(suffix)) continue;
    const std::string old = name.substr(0, name.size() - suffix.size());
    if (graph.unused_value_name(old) == old) renamed[name] = old;
  }
  for (const auto& [name, old] : renamed) {
    auto node = graph.initializers.extract(name);
    node.key() = old;
    graph.initializers.insert(std::move(node));
    graph.values[old] = graph.values[name];
    graph.values.erase(name);
    replace_uses(graph, name, old);
  }
  return graph;
}

}  // namespace

void PlannedEdge::take_sign() {
  const NumberFormat& number = *spec.number;
  if (number.is_signed || number.grid != Grid::kInteger || spec.zero != ZeroPoint::kNone) return;
  const std::string name(number.name);
  const bool is_narrow = spec.range == Range::kNarrow;
  spec.number = find_number_format(name == "uint1" ? "binary" : name.substr(1));
  spec.range = is_narrow ? Range::kNarrow : spec.number->default_range();
  if (!spec.number->has_rounding()) spec.round = {};
  is_signed_twin = true;
}

bool QuantPlan::needs_calibration() const {
  return std::ranges::any_of(edges,
                             [](const PlannedEdge& edge) { return edge.has_own_scale() && edge.scale == 0; });
}

void QuantPlan::follow(const Branch& made) {
  for (PlannedEdge& edge : edges) {
    if (edge.consumers.erase(made.sum) == 0) continue;
    edge.consumers.insert(made.product);
    if (!made.taker.empty()) edge.consumers.insert(made.taker);
  }
  for (PlannedBias& bias : biases)
    if (bias.made_by == made.sum) bias.made_by = made.product;
}

QuantPlan plan_quantizers(const Graph& graph, const Recipe& recipe, const PlanOptions& options) {
  const Constants constants(graph);
  const Links links(graph);
  const RuledGraph rules = apply_rules(graph, constants, recipe, options.left_out);
  QuantPlan plan;
  plan.constants = planned_constants(graph, rules);
  plan_edges(graph, links, constants, rules, recipe, options, plan);
  if (recipe.bias_bits > 0) {
    if (plan.edges.empty()) {
      throw usage_error("biases: int" + std::to_string(recipe.bias_bits) +
                        " needs quantized activations, whose scales they have; give activations a spec");
    }
    BiasPlanner(graph, links, constants, recipe, options, plan).run();
  }
  plan.kv_cache = recipe.kv_cache;
  note_left(graph, constants, plan);
  return plan;
}

Graph prepare(Graph graph, const Recipe& recipe, const Engine* engine) {
  graph = remove_identities(plain_constants(infer_shapes(sorted(std::move(graph)))));
  graph = engine ? fold_constants(std::move(graph), *engine) : fold_known(std::move(graph));
  graph = fold_transposes(std::move(graph));
  if (recipe.batch_norm == Recipe::BatchNorm::kFold) {
    graph = with_old_names(fold_batch_norm(std::move(graph)), "_folded");
  }
  return unify_symbols(resolve_shapes(std::move(graph)));
}

}  // namespace crumb::graph

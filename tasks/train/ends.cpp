#include "tasks/train/ends.h"

#include <algorithm>
#include <vector>

#include "graph/quantize/operators.h"
#include "graph/quantize/plan.h"
#include "graph/recurrent_cell.h"
#include "quant/recipe/name_pattern.h"

namespace crumb::tasks {
namespace {

struct WeightedNode {
  std::string node, weight, data;
  bool is_recurrent = false;
};

std::vector<WeightedNode> weighted_nodes(const graph::Graph& graph) {
  const graph::Constants constants(graph);
  std::vector<WeightedNode> found;
  for (const graph::Node& node : graph.nodes) {
    for (const graph::WeightInput& input : graph::weight_inputs(graph, node, constants)) {
      const graph::Tensor* const weight = graph.constant(node.inputs[input.input]);
      if (input.is_embedding || !weight || weight->type() != graph::ElementType::kFloat) continue;
      found.push_back({node.name, node.inputs[input.input], node.inputs[input.input == 0 ? 1 : 0],
                       graph::cell_part(node).has_value()});
      break;
    }
  }
  return found;
}

/// What rules that name the weight, its layer or its node say of it. A rule that says neither weights nor
/// activations (a register, say) counts for both: its author has looked at the layer.
struct Said {
  bool weights = false, activations = false;
};

bool names(const Rule& rule, const WeightedNode& end) {
  return std::ranges::any_of(rule.match.name, [&](const std::string& name) {
    const NamePattern pattern(name);
    return !name.starts_with('*') && (pattern.names(end.weight) || pattern.names(end.node));
  });
}

Said said_of(const Recipe& recipe, const WeightedNode& end) {
  Said said;
  for (const Rule& rule : recipe.rules) {
    if (!names(rule, end)) continue;
    const bool of_weights = !rule.leaves_weights, of_activations = rule.activations || rule.skips();
    said.weights |= of_weights || !of_activations;
    said.activations |= of_activations || !of_weights;
  }
  return said;
}

/// Returns an 8-bit spec that keeps what consumers of the file may depend on: whether a tensor has one scale,
/// and the scale's format.
QuantSpec eight_bits(const std::string& format, const QuantSpec& of) {
  const bool by_tensor = of.granularity == Granularity::kTensor && !of.block_format;
  QuantSpec spec = QuantSpec::parse(format + (by_tensor ? ":tensor" : ":channel"));
  if (by_tensor || of.granularity == Granularity::kChannel) spec.scale = of.scale;
  return spec;
}

}  // namespace

Recipe with_eight_bit_ends(Recipe recipe, const graph::Graph& captured) {
  const graph::Graph graph = graph::prepare(captured, recipe);
  const std::vector<WeightedNode> nodes = weighted_nodes(graph);
  if (nodes.empty() || !recipe.weights) return recipe;
  const graph::Links links(graph);
  std::vector<WeightedNode> ends{nodes.front()};
  if (nodes.size() > 1) ends.push_back(nodes.back());
  std::vector<Rule> rules;
  for (const WeightedNode& end : ends) {
    const Said said = said_of(recipe, end);
    Rule rule{.match = {.name = {escape_glob(end.weight)}}, .weights = eight_bits("int8", *recipe.weights)};
    if (end.is_recurrent || said.weights) {
      rule.weights.reset();
      rule.leaves_weights = true;
    }
    if (rule.leaves_weights && (!recipe.activations || said.activations)) continue;
    if (recipe.activations && !said.activations) {
      const bool nonnegative = graph::is_nonnegative(graph, links, end.data);
      QuantSpec spec = QuantSpec::parse_activations(nonnegative ? "uint8:tensor" : "int8:tensor");
      if (recipe.activations->granularity == Granularity::kTensor) spec.scale = recipe.activations->scale;
      rule.activations.emplace(spec);
    }
    rule.origin = "the rule for the first and the last layer";
    rules.push_back(std::move(rule));
  }
  recipe.rules.insert(recipe.rules.end(), rules.begin(), rules.end());
  return recipe;
}

Recipe with_float_input(Recipe recipe, const graph::Graph& captured) {
  const std::vector<WeightedNode> nodes = weighted_nodes(graph::prepare(captured, recipe));
  if (nodes.empty() || !recipe.activations) return recipe;
  Rule rule{.match = {.name = {escape_glob(nodes.front().weight)}}, .weights = {}, .leaves_weights = true};
  rule.activations.emplace();
  rule.origin = "the rule for the network's input";
  recipe.inputs.emplace();
  recipe.rules.push_back(std::move(rule));
  return recipe;
}

}  // namespace crumb::tasks

#include "qat/train/ends.h"

#include <algorithm>
#include <vector>

#include "models/graph/quantize/operators.h"
#include "models/graph/quantize/plan.h"
#include "models/graph/recurrent_cell.h"
#include "quant/recipe/name_pattern.h"

namespace crumb::qat {
namespace {

struct WeightedNode {
  std::string weight, data;
  bool is_recurrent = false;
};

std::vector<WeightedNode> weighted_nodes(const graph::Graph& graph) {
  const graph::Constants constants(graph);
  std::vector<WeightedNode> found;
  for (const graph::Node& node : graph.nodes) {
    for (const graph::WeightInput& input : graph::weight_inputs(graph, node, constants)) {
      if (input.is_embedding || !graph.constant(node.inputs[input.input])) continue;
      found.push_back({node.inputs[input.input], node.inputs[input.input == 0 ? 1 : 0],
                       graph::cell_part(node).has_value()});
      break;
    }
  }
  return found;
}

bool is_named(const Recipe& recipe, const std::string& weight) {
  return std::ranges::any_of(recipe.rules, [&](const Rule& rule) {
    return std::ranges::any_of(rule.match.name, [&](const std::string& name) {
      const NamePattern pattern(name);
      return !name.starts_with('*') &&
             (pattern.matches(weight) || pattern.matches(std::string(layer_of(weight))));
    });
  });
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
    if (is_named(recipe, end.weight)) continue;
    Rule rule{.match = {.name = {escape_glob(end.weight)}}, .weights = QuantSpec::parse("int8:channel")};
    if (end.is_recurrent) {
      rule.weights.reset();
      rule.leaves_weights = true;
      if (!recipe.activations) continue;
    }
    if (recipe.activations) {
      const bool nonnegative = graph::is_nonnegative(graph, links, end.data);
      rule.activations.emplace(QuantSpec::parse_activations(nonnegative ? "uint8:tensor" : "int8:tensor"));
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

}  // namespace crumb::qat

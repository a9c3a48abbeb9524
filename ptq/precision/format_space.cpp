#include "ptq/precision/format_space.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/files/text.h"
#include "ptq/matrices/weight_rows.h"

namespace crumb::ptq {
namespace {

using graph::PlannedConstant;
using graph::QuantPlan;
using Group = FormatSpace::Group;
using Unit = FormatSpace::Unit;

QuantSpec usual_embeddings() { return *Recipe().embeddings; }

const PlannedConstant& constant_of(const QuantPlan& plan, const std::string& name) {
  return *std::ranges::find(plan.constants, name, &PlannedConstant::value);
}

/// What the layers of one rule have in common.
struct RuleKey {
  std::string weights, activations, ops;
  auto operator<=>(const RuleKey&) const = default;
};

}  // namespace

FormatSpace::FormatSpace(const graph::Graph& graph, FormatRequest requested)
    : graph_(graph), requested_(std::move(requested)) {
  // These formats fit every shape.
  const auto probe = [&](const char* weights, const char* embeddings) {
    return planned_without_biases(requested_.recipe(
        QuantSpec::parse(weights), requested_.tables ? QuantSpec::parse(embeddings) : usual_embeddings()));
  };
  const QuantPlan plan = probe("int8:tensor", "int7:tensor"), changed = probe("int6:tensor", "int5:tensor");
  bool has_choice = false;
  for (graph::LayerGroup& layers : layer_groups(graph, plan)) {
    Group group;
    group.is_free = !requested_.activations.empty() && !layers.sources.empty() && !has_fixed_inputs(layers);
    for (const graph::FormatUnit& one : layers.units) {
      Unit unit{.unit = one, .fits = {}};
      unit.is_free = std::ranges::all_of(one.constants, [&](const std::string& name) {
        return constant_of(plan, name).spec != constant_of(changed, name).spec;
      });
      unit.is_table = unit.is_free && constant_of(plan, *one.constants.begin()).spec->number->bits == 7;
      for (const QuantSpec& spec : requested_.weights)
        unit.fits.push_back(std::ranges::none_of(one.constants, [&](const std::string& name) {
          const graph::MatrixAxes axes = constant_of(plan, name).axes;
          return graph::misfit_of(spec, graph.initializers.at(name).shape(), axes).has_value();
        }));
      if (unit.is_free && std::ranges::find(unit.fits, true) == unit.fits.end())
        throw Error(
            "none of the formats fits " + quote_text(*one.constants.begin()) + " of shape " +
            graph::text_of(std::span(graph.initializers.at(*one.constants.begin()).shape())) +
            "; give it a spec of its own with --set, or name a format with one scale for each channel");
      has_choice = has_choice || unit.is_free;
      group.units.push_back(std::move(unit));
    }
    has_choice = has_choice || group.is_free;
    group.layers = std::move(layers);
    groups_.push_back(std::move(group));
  }
  if (!has_choice)
    throw usage_error("there is nothing to choose for the target: every layer is kept or has its own spec");
}

/// Whether the recipe's own field for graph inputs applies.
bool FormatSpace::has_fixed_inputs(const graph::LayerGroup& group) const {
  return requested_.recipe(requested_.weights[0], usual_embeddings()).inputs.has_value() &&
         std::ranges::all_of(group.sources, [&](const std::string& value) { return is_input(value); });
}

bool FormatSpace::is_input(const std::string& value) const {
  return std::ranges::find(graph_.inputs, value) != graph_.inputs.end();
}

FormatChoice FormatSpace::uniform(std::size_t weights, std::size_t activations) const {
  FormatChoice choice;
  for (const Group& group : groups_) {
    JointChoice one{.shared = group.is_free ? static_cast<std::uint32_t>(activations) : 0, .own = {}};
    for (const Unit& unit : group.units) {
      const auto first = std::ranges::find(unit.fits, true) - unit.fits.begin();
      const auto own = !unit.is_free ? 0 : unit.fits[weights] ? static_cast<std::ptrdiff_t>(weights) : first;
      one.own.push_back(static_cast<std::uint32_t>(own));
    }
    choice.push_back(std::move(one));
  }
  return choice;
}

Recipe FormatSpace::recipe_of(const FormatChoice& choice) const {
  std::vector<std::size_t> uses[2];  // how often weights and tables use each format
  for (auto& counts : uses) counts.assign(requested_.weights.size(), 0);
  for (std::size_t g = 0; g < groups_.size(); ++g)
    for (std::size_t u = 0; u < groups_[g].units.size(); ++u)
      if (const Unit& unit = groups_[g].units[u]; unit.is_free) ++uses[unit.is_table][choice[g].own[u]];
  const auto most = [&](bool table) -> const QuantSpec& {
    return requested_
        .weights[static_cast<std::size_t>(std::ranges::max_element(uses[table]) - uses[table].begin())];
  };
  const bool has_tables = std::ranges::any_of(uses[true], [](std::size_t count) { return count > 0; });
  Recipe recipe = requested_.recipe(most(false), has_tables ? most(true) : usual_embeddings());
  const graph::Links links(graph_);
  std::map<RuleKey, std::size_t> rules;  // indices of rules in the recipe
  std::set<std::string> inputs;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    for (std::size_t u = 0; u < group.units.size(); ++u) {
      const Unit& unit = group.units[u];
      const bool names_weights = unit.is_free && requested_.weights[choice[g].own[u]] != most(unit.is_table);
      const bool names_inputs = group.is_free && !unit.unit.nodes.empty();
      if (!names_weights && !names_inputs) continue;
      std::set<std::string> ops;
      for (const graph::WeightedNode& node : unit.unit.nodes) ops.insert(graph_.nodes[node.node].op);
      for (const std::string& name : unit.unit.constants) {
        // Other consumers are excluded: those of a table would have their outputs quantized.
        const bool is_shared = names_inputs && links.consumers(name).size() > unit.unit.nodes.size();
        RuleKey key{.weights = names_weights ? requested_.weights[choice[g].own[u]].to_string() : "",
                    .activations = names_inputs ? requested_.activations[choice[g].shared].to_string() : "",
                    .ops = ""};
        for (const std::string& op : ops) key.ops += is_shared ? op + " " : "";
        const Rule named = rule_for_tensors(
            {name}, names_weights ? SpecOrKeep(requested_.weights[choice[g].own[u]]) : SpecOrKeep());
        const auto [place, is_new] = rules.emplace(key, recipe.rules.size());
        if (!is_new) {
          recipe.rules[place->second].match.name.push_back(named.match.name[0]);
          continue;
        }
        Rule rule = named;
        rule.leaves_weights = !names_weights;
        if (names_inputs) rule.activations = SpecOrKeep(requested_.activations[choice[g].shared]);
        if (is_shared) rule.match.op.assign(ops.begin(), ops.end());
        recipe.rules.push_back(std::move(rule));
      }
    }
    if (!group.is_free || !recipe.inputs) continue;
    for (const std::string& value : group.layers.sources)
      if (is_input(value)) inputs.insert(value);
  }
  for (const std::string& input : inputs) {  // a rule for other values, too, hides the field
    Rule rule = rule_for_tensors({input}, {});
    rule.leaves_weights = true;
    rule.activations = *recipe.inputs;
    recipe.rules.push_back(std::move(rule));
  }
  return recipe;
}

/// The scales of biases depend on the choice: until then they are not quantized.
QuantPlan FormatSpace::planned_without_biases(Recipe recipe) const {
  recipe.bias_bits = 0;
  return planned(recipe);
}

QuantPlan FormatSpace::planned(const Recipe& recipe) const {
  return plan_quantizers(graph_, recipe, requested_.plan);
}

QuantPlan FormatSpace::plan_of(const FormatChoice& choice) const {
  QuantPlan plan = planned(recipe_of(choice));
  check(choice, plan);
  return plan;
}

void FormatSpace::check(const FormatChoice& choice, const QuantPlan& plan) const {
  const auto fail = [](const std::string& name) {
    throw Error("names of the graph are alike: a rule for one of its layers reaches " + quote_text(name) +
                ", too, so that no recipe can say what is chosen");
  };
  std::set<std::string> chosen;  // constants and edges
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::size_t u = 0; u < groups_[g].units.size(); ++u) {
      const Unit& unit = groups_[g].units[u];
      if (!unit.is_free) continue;
      for (const std::string& name : unit.unit.constants) {
        if (constant_of(plan, name).spec != requested_.weights[choice[g].own[u]]) fail(name);
        chosen.insert(name);
      }
    }
    if (!groups_[g].is_free) continue;
    const QuantSpec& wanted = requested_.activations[choice[g].shared];
    for (const Unit& unit : groups_[g].units) {
      for (const graph::WeightedNode& node : unit.unit.nodes) {
        for (const graph::PlannedEdge* edge : edges_before(node, plan)) {
          if (edge->spec != wanted && !edge->is_signed_twin && !is_input(edge->value)) fail(edge->value);
          chosen.insert(edge->value);
        }
      }
    }
  }
  const QuantPlan usual =
      planned_without_biases(requested_.recipe(QuantSpec::parse("int8:tensor"), usual_embeddings()));
  for (const PlannedConstant& constant : plan.constants)
    if (!chosen.contains(constant.value) && constant.spec != constant_of(usual, constant.value).spec)
      fail(constant.value);
  for (const graph::PlannedEdge& edge : plan.edges) {
    const auto before = std::ranges::find(usual.edges, edge.value, &graph::PlannedEdge::value);
    if (!chosen.contains(edge.value) && (before == usual.edges.end() || before->spec != edge.spec))
      fail(edge.value);
  }
}

}  // namespace crumb::ptq

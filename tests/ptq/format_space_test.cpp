// Recipes of drawn choices on drawn networks: the plan that a recipe makes, also after it was written and read, is the choice, and
// layers share what values and weights make them share.
#include "ptq/precision/format_space.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/graph/quantize/build_graph.h"

namespace {

using crumb::QuantSpec;
using crumb::Recipe;
using crumb::graph::Graph;
using crumb::graph::QuantPlan;
using crumb::graph::testing::GraphBuilder;
using crumb::ptq::FormatChoice;
using crumb::ptq::FormatSpace;

struct DrawnProducts {
  GraphBuilder builder{{8, 8}};
  std::vector<std::string> values{"x"};
  std::map<std::string, std::string> source{{"x", "x"}};      // before what moves elements
  std::vector<std::pair<std::string, std::string>> products;  // source and weight

  /// Of products of matrices, some of which are used twice, sums, Relu and Transpose.
  explicit DrawnProducts(std::mt19937& random, bool are_alike) {
    const std::size_t steps = 3 + random() % 8;
    std::vector<std::string> weights;
    for (std::size_t i = 0; i < steps; ++i) {
      const std::string from = values[random() % values.size()];
      const std::string made = i + 1 == steps ? "y" : "v" + std::to_string(i);
      source[made] = made;
      const std::size_t kind = i == 0 ? 0 : random() % 6;
      if (kind <= 2) {
        const bool is_new = weights.empty() || random() % 4 > 0;
        if (is_new) {
          // A tensor's name may be that of another one's layer.
          const std::string name = are_alike && !weights.empty() && random() % 2 == 0
                                       ? weights.back() + ".w"
                                       : "m" + std::to_string(i);
          builder.weight(name, {8, 8});
          weights.push_back(name);
        }
        const std::string weight = is_new ? weights.back() : weights[random() % weights.size()];
        builder.node("MatMul", {from, weight}, made);
        products.emplace_back(source[from], weight);
      } else if (kind == 3) {
        builder.node("Relu", {from}, made);
      } else if (kind == 4) {
        builder.node("Transpose", {from}, made, {{"perm", std::vector<std::int64_t>{1, 0}}});
        source[made] = source[from];
      } else {
        builder.node("Add", {from, values[random() % values.size()]}, made);
      }
      values.push_back(made);
    }
  }

  /// Products that share a source or a weight with one another, however far around: by weight, what they are one of.
  std::map<std::string, int> groups() const {
    std::vector<int> group(products.size());
    for (std::size_t i = 0; i < group.size(); ++i) group[i] = static_cast<int>(i);
    for (bool changes = true; changes;) {
      changes = false;
      for (std::size_t i = 0; i < group.size(); ++i) {
        for (std::size_t k = 0; k < group.size(); ++k) {
          const bool share =
              products[i].first == products[k].first || products[i].second == products[k].second;
          if (!share || group[i] <= group[k]) continue;
          group[i] = group[k];
          changes = true;
        }
      }
    }
    std::map<std::string, int> by_weight;
    for (std::size_t i = 0; i < group.size(); ++i) by_weight[products[i].second] = group[i];
    return by_weight;
  }
};

FormatChoice drawn_choice(const FormatSpace& space, std::mt19937& random) {
  FormatChoice choice;
  for (const FormatSpace::Group& group : space.groups()) {
    auto& one = choice.emplace_back();
    one.shared = static_cast<std::uint32_t>(random() % space.shared_options(group));
    for (const FormatSpace::Unit& unit : group.units)
      one.own.push_back(static_cast<std::uint32_t>(random() % unit.options()));
  }
  return choice;
}

std::map<std::string, std::string> specs_in(const QuantPlan& plan) {
  std::map<std::string, std::string> specs;
  for (const auto& constant : plan.constants) specs[constant.value] = crumb::to_string(constant.spec);
  for (const auto& edge : plan.edges) specs[edge.value] = edge.spec.to_string();
  return specs;
}

}  // namespace

TEST_CASE("format space: a recipe says the choice, or that names are alike") {
  std::mt19937 random(3);
  int said = 0, refused = 0, shared = 0;
  for (int round = 0; round < 600; ++round) {
    CAPTURE(round);
    const bool are_alike = round % 4 == 3;
    const DrawnProducts network(random, are_alike);
    const Graph graph = network.builder.done();
    const bool has_inputs = round % 3 == 1, has_activations = round % 5 > 0;
    crumb::ptq::FormatRequest requested{
        .weights = {QuantSpec::parse("int3:channel"), QuantSpec::parse("int4:channel"),
                    QuantSpec::parse("e2m1:channel")},
        .activations = {QuantSpec::parse("int4:tensor"), QuantSpec::parse("int8:tensor")},
        .recipe = {},
        .plan = {}};
    if (!has_activations) requested.activations.clear();
    requested.recipe = [&](const QuantSpec& weights, const QuantSpec& embeddings) {
      Recipe recipe;
      recipe.weights = weights;
      recipe.embeddings = embeddings;
      if (has_inputs) recipe.inputs = QuantSpec::parse("int6:tensor");
      return recipe;
    };
    const FormatSpace space(graph, requested);
    const std::map<std::string, int> groups = network.groups();
    std::set<int> kinds;
    for (const auto& [weight, group] : groups) kinds.insert(group);
    REQUIRE(space.groups().size() == kinds.size());
    for (const FormatSpace::Group& group : space.groups()) {
      std::set<int> found;
      for (const FormatSpace::Unit& unit : group.units)
        for (const std::string& name : unit.unit.constants) found.insert(groups.at(name));
      CHECK(found.size() == 1);
      shared += group.units.size() > 1;
    }
    const FormatChoice choice = drawn_choice(space, random);
    QuantPlan plan;
    try {
      plan = space.plan_of(choice);
    } catch (const crumb::Error& error) {
      CHECK(are_alike);
      CHECK(std::string(error.what()).find("alike") != std::string::npos);
      ++refused;
      continue;
    }
    ++said;
    auto specs = specs_in(plan);
    const Recipe recipe = space.recipe_of(choice), again = crumb::parse_recipe(to_yaml(recipe), "r");
    CHECK(again == recipe);
    CHECK(specs_in(plan_quantizers(graph, again)) == specs);
    for (std::size_t g = 0; g < choice.size(); ++g) {
      const FormatSpace::Group& group = space.groups()[g];
      for (std::size_t u = 0; u < group.units.size(); ++u)
        for (const std::string& name : group.units[u].unit.constants)
          CHECK(specs.at(name) == requested.weights[choice[g].own[u]].to_string());
      for (const std::string& value : group.layers.sources) {
        const bool is_fixed = value == "x" && has_inputs;
        CHECK(specs.contains(value) == (is_fixed || has_activations));
        if (is_fixed) CHECK(specs.at(value) == "int6:tensor");
        if (!is_fixed && has_activations)
          CHECK(specs.at(value) == requested.activations[choice[g].shared].to_string());
      }
    }
  }
  CHECK(said > 400);
  CHECK(refused > 5);
  CHECK(shared > 50);
}

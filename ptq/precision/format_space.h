// The formats that a network's layers can have, and the recipe that expresses a choice of them.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "graph/quantize/layer_groups.h"
#include "graph/quantize/plan.h"
#include "quant/budget/joint_assignment.h"
#include "quant/recipe/recipe.h"

namespace crumb::ptq {

struct FormatRequest {
  std::vector<QuantSpec> weights;      ///< at least one
  std::vector<QuantSpec> activations;  ///< of layers' inputs; empty: as the recipe says
  bool tables = false;                 ///< choose for embedding tables, too; false: as the recipe says
  /// Returns the request's recipe with these specs for weights and embedding tables. A weight with one of
  /// them is free; others keep their spec.
  std::function<Recipe(const QuantSpec& weights, const QuantSpec& embeddings)> recipe;
  graph::PlanOptions plan;
};

/// One entry for each group of layers: own options are indices of the weights' formats, the shared one is
/// that of activations; 0 where there is no choice.
using FormatChoice = std::vector<JointChoice>;

class FormatSpace {
 public:
  /// Preconditions: the graph is prepared, and outlives this. Throws usage Error where there is no choice.
  FormatSpace(const graph::Graph& graph, FormatRequest requested);

  struct Unit {
    graph::FormatUnit unit;
    bool is_free = false;    ///< its weights' format is chosen
    bool is_table = false;   ///< has the recipe's spec for embeddings
    std::vector<bool> fits;  ///< for each format of weights, whether the shapes allow it
    std::size_t options() const { return is_free ? fits.size() : 1; }
  };
  struct Group {
    std::vector<Unit> units;
    graph::LayerGroup layers;
    bool is_free = false;  ///< its inputs' format is chosen
  };

  const std::vector<Group>& groups() const { return groups_; }
  const FormatRequest& requested() const { return requested_; }
  const graph::Graph& graph() const { return graph_; }
  std::size_t shared_options(const Group& group) const {
    return group.is_free ? requested_.activations.size() : 1;
  }

  /// Returns the choice of one format for all weights and one for all activations; a weight that the format
  /// does not fit gets the first that does.
  FormatChoice uniform(std::size_t weights, std::size_t activations) const;

  /// Returns the choice as a recipe: the weights' most frequent format as default, and rules that name
  /// layers.
  Recipe recipe_of(const FormatChoice& choice) const;

  /// Returns the plan of recipe_of(). Throws Error where names in the graph make a rule match more than its
  /// layers.
  graph::QuantPlan plan_of(const FormatChoice& choice) const;

 private:
  bool is_input(const std::string& value) const;
  bool has_fixed_inputs(const graph::LayerGroup& group) const;
  void check(const FormatChoice& choice, const graph::QuantPlan& plan) const;
  graph::QuantPlan planned(const Recipe& recipe) const;
  graph::QuantPlan planned_without_biases(Recipe recipe) const;

  const graph::Graph& graph_;
  FormatRequest requested_;
  std::vector<Group> groups_;
};

}  // namespace crumb::ptq

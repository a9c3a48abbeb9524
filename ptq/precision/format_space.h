// The formats that a network's layers can have, and the recipe that says a choice of them.
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

struct FormatWish {
  std::vector<QuantSpec> weights;      ///< at least one
  std::vector<QuantSpec> activations;  ///< of what layers take in; none: as the recipe says
  bool tables = false;  ///< embedding tables are chosen for, too; else the recipe says what they have
  /// What a person wishes besides: the recipe with these specs for weights and embedding tables. What has one of them is free;
  /// other weights keep their spec.
  std::function<Recipe(const QuantSpec& weights, const QuantSpec& embeddings)> recipe;
  graph::PlanOptions plan;
};

/// For each group of layers: own options are numbers of weights' formats, the shared one that of activations; 0 where there is nothing
/// to choose.
using FormatChoice = std::vector<JointChoice>;

class FormatSpace {
 public:
  /// The graph is prepared, and outlives this. Throws usage Error where nothing can be chosen.
  FormatSpace(const graph::Graph& graph, FormatWish wish);

  struct Unit {
    graph::FormatUnit unit;
    bool is_free = false;    ///< its weights' format is to be chosen
    bool is_table = false;   ///< has the recipe's spec for embeddings
    std::vector<bool> fits;  ///< of each format of weights, its shape
    std::size_t options() const { return is_free ? fits.size() : 1; }
  };
  struct Group {
    std::vector<Unit> units;
    graph::LayerGroup layers;
    bool is_free = false;  ///< what it takes in is to be chosen for
  };

  const std::vector<Group>& groups() const { return groups_; }
  const FormatWish& wish() const { return wish_; }
  const graph::Graph& graph() const { return graph_; }
  std::size_t shared_options(const Group& group) const {
    return group.is_free ? wish_.activations.size() : 1;
  }

  /// Everything in the formats of these numbers; what the weights' one does not fit in the first that does.
  FormatChoice uniform(std::size_t weights, std::size_t activations) const;

  /// What the choice needs said: the format used most stands for all weights, rules name layers.
  Recipe recipe_of(const FormatChoice& choice) const;

  /// As the recipe has it. Throws Error where names of the graph make a rule reach what it should not.
  graph::QuantPlan plan_of(const FormatChoice& choice) const;

 private:
  bool is_input(const std::string& value) const;
  bool has_fixed_inputs(const graph::LayerGroup& group) const;
  void check(const FormatChoice& choice, const graph::QuantPlan& plan) const;
  graph::QuantPlan planned(const Recipe& recipe) const;
  graph::QuantPlan planned_without_biases(Recipe recipe) const;

  const graph::Graph& graph_;
  FormatWish wish_;
  std::vector<Group> groups_;
};

}  // namespace crumb::ptq

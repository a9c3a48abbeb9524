// What a recipe says of each constant and each operator of a graph: its fields by what nodes do with a
// constant, then its rules (quant/recipe/rule_reach.h).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/matrix_axes.h"
#include "graph/quantize/operators.h"
#include "quant/recipe/recipe.h"

namespace crumb::graph {

/// A float32 initializer, and what the recipe says of it.
struct RuledConstant {
  enum class Role { kWeight, kEmbedding, kOther };
  Role role = Role::kOther;
  std::size_t node = 0;  ///< the first that takes it
  MatrixAxes axes;       ///< the first of others
  SpecOrKeep spec;
  std::string kept_because;  ///< where it stays

  // For training; of weights that are quantized, and pruning of all weights that no rule skips.
  std::optional<AccumulatorGoal> accumulator;
  WeightScales scales = WeightScales::kLearned;
  std::optional<PruneGoal> prune;
  bool learned_bits = false;
};

/// What the recipe says of the activations of one operator, or of one input of the graph.
struct RuledActivations {
  SpecOrKeep spec;
  int rule = -1;       ///< the number of the rule that says so; -1: the recipe's own field
  bool skips = false;  ///< it stays as it is, weights too
};

struct RuledGraph {
  std::map<std::string, RuledConstant> constants;
  std::vector<RuledActivations> nodes;             ///< by index of node
  std::map<std::string, RuledActivations> inputs;  ///< of the graph
};

/// Throws usage Error for a pattern that reaches nothing, unless its rule is optional; Error where a constant is taken
/// along two axes and its spec has one scale for each channel, and where a spec does not fit a constant's shape (all
/// of them in one message). `left_out`: tensors of the model's file that the graph does not take; a rule may
/// name them alone.
RuledGraph apply_rules(const Graph& graph, const Constants& constants, const Recipe& recipe,
                       const std::set<std::string>& left_out = {});

}  // namespace crumb::graph

// Applies a recipe to each constant and each operator of a graph: first its fields, by what nodes do with a
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
  MatrixAxes axes;       ///< as its first consumer takes it
  SpecOrKeep spec;
  std::string kept_because;  ///< why the constant is not quantized

  // For training: of weights that are quantized; pruning of all weights that no rule skips.
  std::optional<AccumulatorGoal> accumulator;
  WeightScales scales = WeightScales::kLearned;
  std::optional<PruneGoal> prune;
  bool learned_bits = false;
};

/// What the recipe says of the activations of one operator, or of one input of the graph.
struct RuledActivations {
  SpecOrKeep spec;
  int rule = -1;       ///< the number of the rule that set the spec; -1: the recipe's own field
  bool skips = false;  ///< the operator stays as it is, with its weights
};

struct RuledGraph {
  std::map<std::string, RuledConstant> constants;
  std::vector<RuledActivations> nodes;             ///< by index of node
  std::map<std::string, RuledActivations> inputs;  ///< of the graph
};

/// Throws usage Error for a pattern that matches nothing, unless its rule is optional. Throws Error where a
/// constant with one scale for each channel has two different output axes, and where specs do not fit shapes
/// of constants (all of them in one message). `left_out`: tensors of the model's file that the graph does not
/// use; a rule may match these alone.
RuledGraph apply_rules(const Graph& graph, const Constants& constants, const Recipe& recipe,
                       const std::set<std::string>& left_out = {});

}  // namespace crumb::graph

// Mixed precision by budget: chooses a format for each tensor, so that all stay within a target and the sum
// over the tensors of squared error over squared norm, or of another loss, is least. The choice is a recipe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "formats/checkpoint/checkpoint.h"
#include "quant/budget/measure.h"
#include "quant/checkpoint/checkpoint_plan.h"
#include "quant/recipe/recipe.h"
#include "quant/recipe/target.h"

namespace crumb {

/// Replaces the loss of a tensor in each of its formats, squared error over squared norm, by another, at
/// least 0.
using Weigh = std::function<void(const std::string& tensor, std::vector<MeasuredFormat>& formats)>;

struct BudgetRequest {
  Target target;
  std::vector<QuantSpec> formats;
  /// Returns the user's recipe with these specs for weights and embedding tables. A format is chosen for each
  /// tensor whose spec is then one of the two; the others keep their spec.
  std::function<Recipe(const QuantSpec& weights, const QuantSpec& embeddings)> recipe;
  MeasureOptions measure;
  Weigh weigh;  ///< none: losses stay
  /// Returns what the file stores as its graph, given the plan (RunPlan::structure); none: nothing is stored.
  std::function<std::string(const std::vector<PlannedTensor>&)> structure;
};

struct BudgetChoice {
  Recipe recipe;
  double loss = 0;   ///< the sum over the tensors with a chosen format
  double bound = 0;  ///< no choice within the target loses less; `loss` where this one is the best
  bool best_everywhere = false;  ///< the target is so large that every tensor has the format that loses least
  std::map<std::string, MeasuredFormat> chosen;  ///< by the tensor's name
};

/// Chooses formats within the target: the packed file of the recipe, before zstd, and its bits per weight are
/// never above it. Throws Error where the target is below the least that the formats give (naming that
/// least), where no tensor is free to be chosen for, and as planning and measuring do.
BudgetChoice choose_by_budget(const Checkpoint& checkpoint, const BudgetRequest& request);

}  // namespace crumb

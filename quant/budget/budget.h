// Mixed precision by budget: a format for each tensor, so that all stay within a target and the sum over the
// tensors of squared error over squared norm, or of another loss, is least. The choice is a recipe.
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

/// Puts what a tensor loses in each of its formats, at least 0, in the place of squared error over squared norm.
using Weigh = std::function<void(const std::string& tensor, std::vector<MeasuredFormat>& formats)>;

struct BudgetRequest {
  Target target;
  std::vector<QuantSpec> formats;
  /// What a person wishes besides: the recipe with these specs for weights and embedding tables. A tensor
  /// whose spec is one of the two is free to be chosen for; the others keep their spec.
  std::function<Recipe(const QuantSpec& weights, const QuantSpec& embeddings)> recipe;
  MeasureOptions measure;
  Weigh weigh;  ///< none: losses stay
  /// What the file stores as its graph, given the plan (RunPlan::structure); none: nothing.
  std::function<std::string(const std::vector<PlannedTensor>&)> structure;
};

struct BudgetChoice {
  Recipe recipe;
  double loss = 0;   ///< the sum over the tensors that were chosen for
  double bound = 0;  ///< no choice within the target loses less; `loss` where this one is the best
  bool best_everywhere = false;  ///< the target is so large that every tensor has the format that loses least
  std::map<std::string, MeasuredFormat> chosen;  ///< by the tensor's name
};

/// Throws Error: a target below the least that the formats give (naming that least); nothing to choose for;
/// what planning and measuring throw. The packed file of the recipe, before zstd, and its bits per weight are
/// never above the target.
BudgetChoice choose_by_budget(const Checkpoint& checkpoint, const BudgetRequest& request);

}  // namespace crumb

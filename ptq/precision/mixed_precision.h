// Mixed precision of a network by budget: chooses formats of each layer's weights and inputs, within a target
// and with the least loss measured on samples. The choice is a recipe. (quant/budget/budget.h does it for the
// tensors of a checkpoint, which have no activations.)
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ptq/precision/format_counts.h"
#include "ptq/precision/format_losses.h"
#include "ptq/precision/format_space.h"
#include "ptq/stages.h"
#include "quant/recipe/target.h"

namespace crumb::ptq {

struct MixedRequest {
  Target target;  ///< bits per weight, bit operations or accumulators
  FormatRequest formats;
  LossRequest losses;
  InputShapes shapes;  ///< for counting bit operations
};

struct MixedChoice {
  Recipe recipe;
  double loss = 0;   ///< summed over layers, of weights and of inputs
  double bound = 0;  ///< no choice within the target loses less; equals `loss` if this one is the best
  double used = 0;   ///< of the target, in its unit, as crumb cost counts for the recipe's result
  std::vector<std::string> without_register;  ///< as in BudgetUse
  bool best_everywhere = false;               ///< every layer has the formats that lose least
  std::map<std::string, std::size_t> uses;    ///< formats as text, and how many layers have them
};

/// Replaces the setting's plan by the best choice. Throws usage Error where there is no choice, samples are
/// missing, or the target is below the least that the formats allow, which it names; Error as measuring and
/// counting do.
MixedChoice choose_formats(Setting& setting, const MixedRequest& requested);

}  // namespace crumb::ptq

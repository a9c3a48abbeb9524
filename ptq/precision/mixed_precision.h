// Mixed precision of a network by budget: formats of each layer's weights and of what it takes in, so that all stay within a target
// and what is lost, measured on samples, is least. The choice is a recipe. (quant/budget/budget.h does it for the tensors of a
// checkpoint, which have no activations.)
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

struct MixedWish {
  Target target;  ///< of bits per weight, bit operations or accumulators
  FormatWish formats;
  LossWish losses;
  InputShapes shapes;  ///< bit operations are counted for
};

struct MixedChoice {
  Recipe recipe;
  double loss = 0;   ///< the sum over layers, of weights and of what they take in
  double bound = 0;  ///< no choice within the target loses less; `loss` where this one is the best
  double used = 0;   ///< of the target, in its unit, as crumb cost says of what the recipe makes
  std::vector<std::string> without_register;  ///< BudgetUse's
  bool best_everywhere = false;               ///< every layer has the formats that lose least
  std::map<std::string, std::size_t> uses;    ///< formats as text, and how many layers have them
};

/// The setting's plan becomes one of the choices. Throws usage Error where nothing can be chosen, samples are missing, or the target is
/// below the least that the formats give, naming that; Error as measuring and counting do.
MixedChoice choose_formats(Setting& setting, const MixedWish& wish);

}  // namespace crumb::ptq

// The cells of a sweep: each format with each spec of activations and each method.
#pragma once

#include <string>
#include <vector>

#include "cli/flags/recipe_flags.h"
#include "jobs/sweep.h"

namespace crumb::cli {

struct SweepGridFlags {
  std::string formats;               ///< specs of weights, between commas
  std::string activations = "keep";  ///< specs, keep, or same, between commas
  std::string methods = "rounding";  ///< between commas: rounding, or stages joined by +
  RecipeFlags recipe;                ///< what all cells share
};

/// All of a format, then of the next; within it by activations. Throws usage Error, naming the flag: what is
/// no spec and no stage, a stage of training, one thing twice, nothing.
std::vector<jobs::SweepCell> sweep_cells(const SweepGridFlags& flags);

}  // namespace crumb::cli

// The cells of a sweep: each format with each spec of activations and each method.
#pragma once

#include <string>
#include <vector>

#include "cli/flags/recipe_flags.h"
#include "jobs/sweep.h"

namespace crumb::cli {

struct SweepGridFlags {
  std::string formats;               ///< specs of weights, separated by commas
  std::string activations = "keep";  ///< specs, keep, or same, separated by commas
  std::string methods = "rounding";  ///< separated by commas: rounding, or stages joined by +
  RecipeFlags recipe;                ///< shared by all cells
};

/// Returns all cells of the first format, then of the next; within a format by activations. Throws usage
/// Error, naming the flag, for what is neither a spec nor a stage, for a stage of training, for the same
/// thing twice and for an empty list.
std::vector<jobs::SweepCell> sweep_cells(const SweepGridFlags& flags);

}  // namespace crumb::cli

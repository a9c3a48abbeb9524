// The recipe of a network whose adapters were merged into its codes.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"
#include "quant/recipe/recipe.h"

namespace crumb::jobs {

/// Returns a recipe that quantizes a network's constants as they are quantized now.
Recipe recipe_of_codes(const graph::Graph& graph);

/// Makes the recipe among a packed file's `files` name the specs of these constants; leaves what it says of
/// activations and caches, and the stages that made the file.
void name_codes(std::map<std::string, std::string>& files, const graph::Graph& graph);

/// Adds a stage to the stages that made the file with these `files`.
void add_stage(std::map<std::string, std::string>& files, Stage stage);

}  // namespace crumb::jobs

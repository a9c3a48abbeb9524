// --profile on verbs that quantize: defaults that a consumer takes, and a refusal before the work where it would not.
#pragma once

#include <string>

#include "cli/recipe_flags.h"
#include "graph/graph.h"

namespace crumb::cli {

/// The scheme of the profile's name becomes the base of the recipe, unless a scheme or a recipe is given; nothing where
/// there is no such scheme.
void use_profile(const std::string& profile, RecipeFlags& flags);

/// Throws Error, which names node, reason and flag, where the profile's tool would not take the graph as it is, or would
/// compute something else. Scales may be any: what is looked at is their kind.
void check_for_profile(const graph::Graph& graph, const std::string& profile);

}  // namespace crumb::cli

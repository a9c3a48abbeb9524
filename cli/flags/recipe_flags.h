// The flags of crumb quantize that say what a recipe says. Their names, types and help come from the recipe's
// table of fields (quant/recipe/fields.h).
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "quant/recipe/recipe.h"

namespace crumb::cli {

struct RecipeFlags {
  std::string scheme, recipe, weights, embeddings, zstd, layout;
  /// A scheme that is the base where none of --scheme and --recipe is given; --weights then changes its weights.
  std::string base;
  std::string activations, inputs, biases, batch_norm, average_pools;  ///< of a graph
  std::string kv_cache;                                                ///< of a decoder
  std::string stages;                                                  ///< of networks
  std::string accumulator, scales, prune, learned_bits;                ///< of training
  std::vector<std::string> include, exclude, set;

  /// Whether --scheme, --weights or --recipe says how weights are quantized.
  bool has_base() const { return !scheme.empty() || !weights.empty() || !recipe.empty() || !base.empty(); }
};

/// --profile on verbs that quantize: the scheme of the profile's name becomes the base of the recipe, unless a scheme or
/// a recipe is given; nothing where there is no such scheme.
void use_profile(const std::string& profile, RecipeFlags& flags);

void add_recipe_flags(CLI::App& verb, RecipeFlags& flags);

/// Those of them that may stand beside any scheme or spec for weights, but `without`, which names fields.
void add_shared_recipe_flags(CLI::App& verb, RecipeFlags& flags,
                             const std::vector<std::string_view>& without = {});

/// Those that only training can follow, besides.
void add_training_flags(CLI::App& verb, RecipeFlags& flags);

/// What --scheme, --weights and --recipe (exactly one of them) say, then changed by the other flags. Throws
/// Error(kUsage).
Recipe recipe_of(const RecipeFlags& flags);

/// Takes those out that only say something of graphs.
RecipeFlags taken_graph_fields(RecipeFlags& flags);

/// Changes a recipe by the flags that may stand beside any: --zstd, --layout and --embeddings are its fields, --include,
/// --exclude and --set become rules, in this order, after its own. Throws Error(kUsage).
void apply_flags(const RecipeFlags& flags, Recipe& recipe);

}  // namespace crumb::cli

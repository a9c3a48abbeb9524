// The flags of crumb quantize that set a recipe's fields. Their names, types and help come from the recipe's
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
  /// The scheme that is the base where neither --scheme nor --recipe is given; --weights then changes its
  /// weights.
  std::string base;
  std::string activations, inputs, biases, batch_norm, average_pools;  ///< for graphs
  std::string kv_cache;                                                ///< for decoders
  std::string stages;                                                  ///< for networks
  std::string accumulator, scales, prune, learned_bits;                ///< for training
  bool keep_zeros = false;                                             ///< for training
  std::vector<std::string> include, exclude, set;

  /// Whether --scheme, --weights or --recipe says how weights are quantized.
  bool has_base() const { return !scheme.empty() || !weights.empty() || !recipe.empty() || !base.empty(); }
};

/// Reads --profile for verbs that quantize: the scheme of the profile's name becomes the base of the recipe,
/// unless a scheme or a recipe is given. Does nothing where there is no such scheme.
void use_profile(const std::string& profile, RecipeFlags& flags);

void add_recipe_flags(CLI::App& verb, RecipeFlags& flags);

/// Adds the flags that combine with any scheme or spec for weights, except those for the fields in `without`.
void add_shared_recipe_flags(CLI::App& verb, RecipeFlags& flags,
                             const std::vector<std::string_view>& without = {});

/// Adds the flags that only training can follow.
void add_training_flags(CLI::App& verb, RecipeFlags& flags);

/// Returns what --scheme, --weights and --recipe (exactly one of them) say, changed by the other flags.
/// Throws Error(kUsage).
Recipe recipe_of(const RecipeFlags& flags);

/// Removes the flags that only graphs have, and returns them.
RecipeFlags taken_graph_fields(RecipeFlags& flags);

/// Changes a recipe by the flags that combine with any: --zstd, --layout and --embeddings are its fields;
/// --include, --exclude and --set become rules, in this order, after its own. Throws Error(kUsage).
void apply_flags(const RecipeFlags& flags, Recipe& recipe);

}  // namespace crumb::cli

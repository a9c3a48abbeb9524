// The flags of crumb quantize that choose formats by a budget: --target, --formats, --activation-formats and
// --sensitivity.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/flags/recipe_flags.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "jobs/quantize.h"
#include "quant/budget/budget.h"

namespace crumb::cli {

struct TargetFlags {
  std::string target, formats, activation_formats, sensitivity = "error";

  /// Whether the flags request something that only networks have.
  bool asks_for_network() const;
};

void add_target_flags(CLI::App& verb, TargetFlags& flags);

/// A target and the formats to choose from.
struct Wish {
  Target target;
  std::vector<QuantSpec> formats;
  std::vector<QuantSpec> activations;  ///< for the inputs of layers; empty: none is chosen
};

/// Returns what the flags say; nothing without --target. Throws Error(kUsage), also for flags that exclude
/// each other. `is_graph`: the input is a graph's file.
std::optional<Wish> wish_of(const TargetFlags& flags, const RecipeFlags& recipe, bool is_graph);

/// Returns what --sensitivity measures, for people.
std::string measured_as(const std::string& sensitivity);

/// Measures and chooses, with progress and notes on stderr. Respects --include, --exclude, --embeddings,
/// --set and --zstd. `weigh`: BudgetRequest's.
BudgetChoice choose(const Wish& requested, const RecipeFlags& flags, const Checkpoint& checkpoint,
                    uint64_t memory, int threads, Weigh weigh = {});

/// Returns the path for the recipe that was chosen for this packed file: minilm.recipe.yaml for minilm.crumb;
/// any other name gets .recipe.yaml at its end.
std::filesystem::path recipe_beside(const std::filesystem::path& output);

/// Throws Error(kUsage) where a file at that path is not, unchanged, what write_recipe() wrote for this
/// output.
void refuse_replacing_recipe(const std::filesystem::path& output);

/// Writes the recipe to that path, with a first line that says so.
void write_recipe(const Recipe& recipe, const std::filesystem::path& output);

/// Notes why a target is not used up, where more than a hundredth of it is left.
void note_unused(const Wish& requested, const BudgetChoice& choice, const jobs::QuantizeReport& report,
                 Notes& notes);

/// Fills in what a dry run knows of the tensors that were measured.
void fill_in(const BudgetChoice& choice, std::vector<TensorReport>& tensors);

/// Adds "recipe" and "assignment" to the report in JSON.
void add_json(const BudgetChoice& choice, const std::string& target, Json& json);

/// Prints how many tensors have which format, and what is lost.
void print_choice(const BudgetChoice& choice, const std::string& measure);

}  // namespace crumb::cli

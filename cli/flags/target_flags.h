// The flags of crumb quantize that let a budget choose: --target, --formats, --activation-formats and
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

  /// Whether something is asked that only networks have.
  bool asks_for_network() const;
};

void add_target_flags(CLI::App& verb, TargetFlags& flags);

/// A target and what may be chosen from.
struct Wish {
  Target target;
  std::vector<QuantSpec> formats;
  std::vector<QuantSpec> activations;  ///< of what layers take in; empty: these are not chosen for
};

/// What the flags say; nothing without --target. Throws Error(kUsage), also for flags that exclude each
/// other. `is_graph`: the input is a graph's file.
std::optional<Wish> wish_of(const TargetFlags& flags, const RecipeFlags& recipe, bool is_graph);

/// What --sensitivity measures, for people.
std::string measured_as(const std::string& sensitivity);

/// Measures and chooses, with progress and notes on stderr. --include, --exclude, --embeddings, --set and
/// --zstd hold. `weigh`: BudgetRequest's.
BudgetChoice choose(const Wish& wish, const RecipeFlags& flags, const Checkpoint& checkpoint, uint64_t memory,
                    int threads, Weigh weigh = {});

/// Where the recipe goes that was chosen for this packed file: minilm.crumb, minilm.recipe.yaml; any other
/// name gets .recipe.yaml at its end.
std::filesystem::path recipe_beside(const std::filesystem::path& output);

/// Throws Error(kUsage) where a file lies there that is not, as it is, what write_recipe() wrote for this
/// output.
void refuse_replacing_recipe(const std::filesystem::path& output);

/// Writes it there, under a line that says so.
void write_recipe(const Recipe& recipe, const std::filesystem::path& output);

/// Says why a target is not used up, where more than a hundredth of it is left.
void note_unused(const Wish& wish, const BudgetChoice& choice, const jobs::QuantizeReport& report,
                 Notes& notes);

/// Fills in what a dry run knows of the tensors that were measured.
void fill_in(const BudgetChoice& choice, std::vector<TensorReport>& tensors);

/// "recipe" and "assignment", for the report in JSON.
void add_json(const BudgetChoice& choice, const std::string& target, Json& json);

/// How many tensors have which format, and what is lost, for the report as text.
void print_choice(const BudgetChoice& choice, const std::string& measure);

}  // namespace crumb::cli

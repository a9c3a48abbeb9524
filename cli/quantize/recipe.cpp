// crumb recipe: lists the presets, prints one as YAML, checks and resolves a recipe, lists the fields.
#include "quant/recipe/recipe.h"

#include <filesystem>
#include <iostream>

#include "cli/flags/flag_group.h"
#include "cli/flags/verb.h"
#include "cli/output.h"
#include "quant/recipe/fields.h"

namespace crumb::cli {
namespace {

struct RecipeVerbFlags {
  std::string name;
  bool fields = false;
};

template <class T>
void add_rows(const std::string& section, std::vector<std::vector<std::string>>& rows) {
  for (const FieldInfo& field : fields_of<T>()) {
    rows.push_back({section + std::string(field.key), std::string(field.type),
                    field.flag.empty() ? "-" : std::string(field.flag), std::string(field.help)});
  }
}

void print_fields() {
  std::vector<std::vector<std::string>> rows{{"field", "value", "flag", "what it is"}};
  add_rows<Recipe>("", rows);
  add_rows<AccumulatorGoal>("accumulator: ", rows);
  add_rows<PruneGoal>("prune: ", rows);
  add_rows<BitBudget>("learned_bits: ", rows);
  for (const StageInfo& stage : stage_infos()) {
    rows.push_back({"stages: " + std::string(stage.name), "options, or none", "-", std::string(stage.help)});
    for (const StageOption& option : stage.options)
      rows.push_back({"stages: " + std::string(stage.name) + ": " + std::string(option.key),
                      option.expected(), "-",
                      std::string(option.help) + " (" + option.text_of(option.usual) + ")"});
  }
  add_rows<Rule>("rules: ", rows);
  add_rows<Rule::Match>("rules: match: ", rows);
  print_table(rows);
}

void print_presets() {
  std::vector<std::vector<std::string>> rows{{"recipe", "what it is"}};
  for (const Scheme& scheme : schemes())
    rows.push_back({std::string(scheme.name), std::string(scheme.summary)});
  print_table(rows);
}

bool names_file(const std::string& name) {
  const std::string extension = std::filesystem::path(name).extension().string();
  return name.find('/') != std::string::npos || extension == ".yaml" || extension == ".yml";
}

void recipe_verb(const RecipeVerbFlags& options) {
  if (options.fields) {
    if (!options.name.empty()) throw usage_error("--fields lists every field; give no NAME with it");
    return print_fields();
  }
  if (options.name.empty()) return print_presets();
  if (names_file(options.name)) {
    std::cout << to_yaml(Recipe::load(options.name));
  } else {
    std::cout << to_commented_yaml(preset_recipe(options.name));
  }
}

}  // namespace

void add_recipe(CLI::App& app) {
  auto options = std::make_shared<RecipeVerbFlags>();
  CLI::App* verb =
      app.add_subcommand("recipe", "List the recipes that have a name, print one, or check a file");
  verb->add_option("name", options->name,
                   "A scheme, printed as a recipe; or a recipe's file (.yaml), checked and printed in full")
      ->type_name("SCHEME|FILE");
  verb->add_flag("--fields", options->fields, "List every field of a recipe")->group(kOutputFlags);
  verb->footer(
      "Example:\n  crumb recipe W4A16 > mine.yaml\n  crumb quantize MODEL -o OUT --recipe mine.yaml");
  verb->callback([options] { recipe_verb(*options); });
}

}  // namespace crumb::cli

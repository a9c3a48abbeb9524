#include "cli/flags/recipe_flags.h"

#include <algorithm>
#include <cctype>

#include "base/files/text.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/not_empty.h"
#include "quant/recipe/fields.h"

namespace crumb::cli {
namespace {

/// Fields that only graphs have.
constexpr std::pair<std::string_view, std::string RecipeFlags::*> kFlagsOfGraphs[] = {
    {"activations", &RecipeFlags::activations},
    {"inputs", &RecipeFlags::inputs},
    {"biases", &RecipeFlags::biases},
    {"batch_norm", &RecipeFlags::batch_norm},
    {"average_pools", &RecipeFlags::average_pools},
    {"kv_cache", &RecipeFlags::kv_cache},
    {"stages", &RecipeFlags::stages}};

/// Fields that only training has.
constexpr std::pair<std::string_view, std::string RecipeFlags::*> kFlagsOfTraining[] = {
    {"accumulator", &RecipeFlags::accumulator},
    {"scales", &RecipeFlags::scales},
    {"prune", &RecipeFlags::prune},
    {"learned_bits", &RecipeFlags::learned_bits}};

/// Adds a flag whose values become rules.
void add_rule_flag(CLI::App& verb, const std::string& flag, std::vector<std::string>& values,
                   const std::string& type, const std::string& help) {
  verb.add_option(flag, values, help)
      ->type_name(type)
      ->expected(1)
      ->allow_extra_args(false)  // else CLI11 takes '[ab]' for a list
      ->take_all();
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// Returns the words for the field's value in help: "SPEC|keep" for the field's "SPEC or keep".
std::string value_of(const FieldInfo& field) {
  if (field.kind == FieldKind::kStages) return "STAGE,...";
  std::string words(field.type);
  replace_all(words, ", ", "|");
  replace_all(words, " or ", "|");
  return words;
}

/// Returns the field's help without the part about whose flag it is, which the group's title says.
std::string help_of(const FieldInfo& field) {
  std::string help(field.help);
  for (const std::string_view whose : {"Of a graph: ", "Of networks: ", "For training: "}) {
    if (!help.starts_with(whose)) continue;
    help.erase(0, whose.size());
    help[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(help[0])));
  }
  return help;
}

/// Adds a flag for a field of the recipe.
void add_field_flag(CLI::App& verb, std::string_view key, std::string& value) {
  const FieldInfo& field = recipe_field(key);
  verb.add_option(std::string(field.flag), value, help_of(field))
      ->check(not_empty)
      ->type_name(value_of(field));
}

/// Splits a text at commas.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

void set_field(std::string_view key, const std::string& value, Recipe& recipe) {
  const Field<Recipe>& field = recipe_field(key);
  try {
    field.set(recipe, field.kind == FieldKind::kStages ? parts_of(value) : std::vector{value});
  } catch (const Error& error) {
    throw usage_error(std::string(field.flag) + ": " + error.what());
  }
}

Rule glob_rule(const std::string& flag, const std::string& glob, const SpecOrKeep& spec) {
  Rule rule{.match = {.name = {glob}}, .weights = spec, .origin = flag};
  if (spec) rule.match.role = {Rule::Role::kAny};
  return rule;
}

Rule set_rule(const std::string& set) {
  const size_t equals = set.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw usage_error("--set expects 'GLOB=SPEC', as in --set '*.query.weight=int8:channel', found " +
                      quote_text(set));
  }
  try {
    return glob_rule("--set", set.substr(0, equals), parse_spec_or_keep(set.substr(equals + 1)));
  } catch (const Error& error) {
    throw usage_error("--set " + quote_text(set) + ": " + error.what());
  }
}

}  // namespace

void use_profile(const std::string& profile, RecipeFlags& flags) {
  const bool is_scheme =
      std::ranges::any_of(schemes(), [&](const Scheme& scheme) { return scheme.name == profile; });
  if (is_scheme) flags.base = profile;
}

void add_recipe_flags(CLI::App& verb, RecipeFlags& flags) {
  std::string scheme_help = "A named scheme:";
  for (const Scheme& scheme : schemes()) scheme_help += " " + std::string(scheme.name);
  flag_group(verb, kQuantizationFlags);
  verb.add_option("--scheme", flags.scheme, scheme_help)->check(not_empty)->type_name("SCHEME");
  add_field_flag(verb, "weights", flags.weights);
  verb.add_option("--recipe", flags.recipe,
                  "A recipe in YAML (crumb recipe --fields lists what may stand there)")
      ->check(not_empty)
      ->type_name("FILE");
  add_shared_recipe_flags(verb, flags);
}

void add_shared_recipe_flags(CLI::App& verb, RecipeFlags& flags,
                             const std::vector<std::string_view>& without) {
  flag_group(verb, kQuantizationFlags);
  add_rule_flag(verb, "--include", flags.include, "GLOB",
                "Quantize what matches GLOB, be it a bias or a norm");
  add_rule_flag(verb, "--exclude", flags.exclude, "GLOB", "Keep what matches GLOB as it is");
  add_rule_flag(verb, "--set", flags.set, "GLOB=SPEC",
                "Quantize what matches GLOB with SPEC, be it a bias or a norm; or 'keep' it");
  add_field_flag(verb, "embeddings", flags.embeddings);
  add_field_flag(verb, "zstd", flags.zstd);
  add_field_flag(verb, "layout", flags.layout);
  flag_group(verb, kNetworkFlags);
  for (const auto& [key, member] : kFlagsOfGraphs) {
    if (std::ranges::find(without, key) == without.end()) add_field_flag(verb, key, flags.*member);
  }
}

void add_training_flags(CLI::App& verb, RecipeFlags& flags) {
  flag_group(verb, "Quantization in training");
  for (const auto& [key, member] : kFlagsOfTraining) add_field_flag(verb, key, flags.*member);
  verb.add_flag("--keep-zeros", flags.keep_zeros,
                "Weights that are zero when training begins stay zero, also as codes: --prune 0");
}

Recipe recipe_of(const RecipeFlags& flags) {
  const int given = !flags.scheme.empty() + !flags.weights.empty() + !flags.recipe.empty();
  if (given == 0 && flags.base.empty() && !flags.activations.empty()) {
    throw usage_error(
        "--activations says nothing of weights: give --weights SPEC too, or --weights keep to leave them");
  }
  if (given == 0 && flags.base.empty()) {
    throw usage_error(
        "quantize needs --scheme NAME, --weights SPEC, --recipe FILE or --target SIZE, as in --scheme W4A16");
  }
  if (given > 1) {
    throw usage_error("--scheme, --weights and --recipe say the same thing; give one of them");
  }
  Recipe recipe;
  if (!flags.base.empty() && flags.scheme.empty() && flags.recipe.empty()) recipe = preset_recipe(flags.base);
  if (!flags.recipe.empty()) recipe = Recipe::load(flags.recipe);
  if (!flags.scheme.empty()) recipe = preset_recipe(flags.scheme);
  if (!flags.weights.empty()) set_field("weights", flags.weights, recipe);
  apply_flags(flags, recipe);
  return recipe;
}

RecipeFlags taken_graph_fields(RecipeFlags& flags) {
  RecipeFlags taken;
  for (const auto& [key, member] : kFlagsOfGraphs) std::swap(taken.*member, flags.*member);
  return taken;
}

void apply_flags(const RecipeFlags& flags, Recipe& recipe) {
  if (!flags.zstd.empty()) set_field("zstd", flags.zstd, recipe);
  if (!flags.layout.empty()) set_field("layout", flags.layout, recipe);
  for (const auto& [key, member] : kFlagsOfGraphs) {
    if (!(flags.*member).empty()) set_field(key, flags.*member, recipe);
  }
  for (const auto& [key, member] : kFlagsOfTraining) {
    if (!(flags.*member).empty()) set_field(key, flags.*member, recipe);
  }
  if (flags.keep_zeros && !recipe.prune) recipe.prune.emplace();
  if (!flags.include.empty() && !recipe.weights) {
    throw usage_error("--include needs a spec for weights, which are kept; --set 'GLOB=SPEC' names one");
  }
  for (const std::string& glob : flags.include) {
    recipe.rules.push_back(glob_rule("--include", glob, recipe.weights));
  }
  for (const std::string& glob : flags.exclude) {
    recipe.rules.push_back(glob_rule("--exclude", glob, std::nullopt));
  }
  if (!flags.embeddings.empty()) {
    set_field("embeddings", flags.embeddings, recipe);
    if (!recipe.rules.empty()) {  // the new rule wins over earlier ones
      recipe.rules.push_back({.match = {.role = {Rule::Role::kEmbedding}},
                              .weights = recipe.embeddings,
                              .optional = true,
                              .origin = "--embeddings " + flags.embeddings});
    }
  }
  for (const std::string& set : flags.set) recipe.rules.push_back(set_rule(set));
}

}  // namespace crumb::cli

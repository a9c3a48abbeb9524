#include "quant/recipe/recipe.h"

#include <algorithm>

#include "base/files/text.h"
#include "quant/recipe/name_pattern.h"

namespace crumb {

namespace {

/// A spec is printable ASCII: messages about its parts repeat them unquoted.
void check_printable(std::string_view text, const std::string& example) {
  if (std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; })) return;
  throw usage_error("expected a spec, as in " + example + ", or 'keep', found " + quote_text(text));
}

}  // namespace

SpecOrKeep parse_spec_or_keep(std::string_view text) {
  if (text == "keep") return std::nullopt;
  check_printable(text, "int4:group=128");
  return QuantSpec::parse(text);
}

SpecOrKeep parse_activations_or_keep(std::string_view text) {
  if (text == "keep") return std::nullopt;
  check_printable(text, "uint8:tensor");
  return QuantSpec::parse_activations(text);
}

SpecOrKeep parse_cache_or_keep(std::string_view text) {
  if (text == "keep") return std::nullopt;
  check_printable(text, "int8");
  return QuantSpec::parse_cache(text);
}

std::string to_string(const SpecOrKeep& spec) { return spec ? spec->to_string() : "keep"; }

Recipe preset_recipe(std::string_view scheme) {
  Recipe recipe;
  recipe.weights = parse_scheme(scheme);
  const std::string_view activations = find_scheme(scheme).activations;
  if (!activations.empty()) recipe.activations = QuantSpec::parse_activations(activations);
  recipe.bias_bits = find_scheme(scheme).bias_bits;
  // The table in which llama.cpp looks up tokens: float16 scales, as those of the weights.
  if (find_scheme(scheme).name.starts_with("gguf:")) recipe.embeddings = QuantSpec::parse("gguf:q8_0");
  // FINN's average pools are sums of integers without their lower bits.
  if (find_scheme(scheme).name == "finn") recipe.average_pools = Recipe::AveragePools::kTruncate;
  return recipe;
}

void refuse_training_fields(const Recipe& recipe) {
  std::string found;
  if (recipe.scales != WeightScales::kLearned) found = "scales: " + std::string(name_of(recipe.scales));
  for (const Rule& rule : recipe.rules) {
    if (!rule.is_for_training()) continue;
    found = rule.accumulator ? "a rule with accumulator: " + to_string(*rule.accumulator)
            : rule.prune     ? "a rule with prune: " + to_string(*rule.prune)
            : rule.scales    ? "a rule with scales: " + std::string(name_of(*rule.scales))
                             : "a rule with learned_bits";
    if (!rule.origin.empty()) found += " (" + rule.origin + ")";
  }
  if (recipe.prune) found = "prune: " + to_string(recipe.prune);
  if (recipe.learned_bits) found = "learned_bits: " + to_string(recipe.learned_bits);
  if (recipe.accumulator) found = "accumulator: " + to_string(recipe.accumulator);
  for (const Stage& stage : recipe.stages)
    if (stage.info().trains) found = "the stage " + stage.name;
  if (found.empty()) return;
  throw usage_error("the recipe has " + found +
                    ", which is for training (crumb train); quantizing without training cannot do it");
}

void refuse_stages(const Recipe& recipe) {
  if (recipe.stages.empty()) return;
  const Stage& first = recipe.stages[0];
  if (first.info().in_floats == InFloats::kShrinks)
    throw usage_error("the recipe has the stage " + quote_text(to_string(first)) +
                      ", which is for crumb quantize alone");
  throw usage_error("the recipe has the stage " + quote_text(to_string(first)) + ", which is for " +
                    (first.info().trains ? "" : "crumb quantize, and for ") +
                    "training a language model or a sentence encoder (crumb train lm, crumb train embed)");
}

Rule rule_for_tensors(const std::vector<std::string>& names, const SpecOrKeep& spec) {
  Rule rule;
  for (const std::string& name : names) rule.match.name.push_back(escape_glob(name));
  rule.weights = spec;
  return rule;
}

}  // namespace crumb

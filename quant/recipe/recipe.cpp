#include "quant/recipe/recipe.h"

#include <algorithm>

#include "formats/io/text.h"
#include "quant/recipe/name_pattern.h"

namespace crumb {

namespace {

/// A spec is printable ASCII; messages about its parts repeat them as they are.
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

std::string to_string(const SpecOrKeep& spec) { return spec ? spec->to_string() : "keep"; }

Recipe preset_recipe(std::string_view scheme) {
  Recipe recipe;
  recipe.weights = parse_scheme(scheme);
  const std::string_view activations = find_scheme(scheme).activations;
  if (!activations.empty()) recipe.activations = QuantSpec::parse_activations(activations);
  return recipe;
}

Rule rule_for_tensors(const std::vector<std::string>& names, const SpecOrKeep& spec) {
  Rule rule;
  for (const std::string& name : names) rule.match.name.push_back(escape_glob(name));
  rule.weights = spec;
  return rule;
}

}  // namespace crumb

#include "quant/recipe/recipe.h"

#include <algorithm>

#include "formats/io/text.h"
#include "quant/recipe/name_pattern.h"

namespace crumb {

SpecOrKeep parse_spec_or_keep(std::string_view text) {
  if (text == "keep") return std::nullopt;
  // A spec is printable ASCII; messages about its parts repeat them as they are.
  if (!std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; })) {
    throw usage_error("expected a spec, as in int4:group=128, or 'keep', found " + quote_text(text));
  }
  return QuantSpec::parse(text);
}

std::string to_string(const SpecOrKeep& spec) { return spec ? spec->to_string() : "keep"; }

Recipe preset_recipe(std::string_view scheme) {
  Recipe recipe;
  recipe.weights = parse_scheme(scheme);
  return recipe;
}

Rule rule_for_tensors(const std::vector<std::string>& names, const SpecOrKeep& spec) {
  Rule rule;
  for (const std::string& name : names) rule.match.name.push_back(escape_glob(name));
  rule.weights = spec;
  return rule;
}

}  // namespace crumb

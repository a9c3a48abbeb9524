// Recipes: what parses is printed and parses to the same, in both layouts; patterns match in bounded time; nothing
// but a usage error is thrown.
#include <optional>

#include "quant/recipe/name_pattern.h"
#include "quant/recipe/recipe.h"
#include "tests/fuzz/fuzz.h"

namespace crumb::testing {
namespace {

template <class Parse>
auto parse_or_refuse(Parse parse) -> std::optional<decltype(parse())> {
  try {
    return parse();
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kUsage && *error.what() != '\0', "a bad recipe is a usage error");
    return std::nullopt;
  }
}

void check_pattern(const std::string& text) {
  const auto pattern = parse_or_refuse([&] { return NamePattern(text); });
  if (!pattern) return;
  for (const std::string& name :
       {std::string(), text, std::string("encoder.layer.0.weight"), std::string(300, 'a')})
    require(pattern->matches(name) == pattern->matches(name), "matching is a function");
  if (pattern->literal()) require(pattern->matches(*pattern->literal()), "a literal matches itself");
}

}  // namespace

void fuzz(std::span<const std::byte> input) {
  const std::string text(text_of(input));
  if (text.find('\n') == std::string::npos) {
    check_pattern(text);
    const auto escaped = parse_or_refuse([&] { return NamePattern(escape_glob(text)); });
    require(!escaped || escaped->matches(text), "an escaped name matches itself");
  }
  const std::optional<Recipe> recipe = parse_or_refuse([&] { return parse_recipe(text, "fuzz.yaml"); });
  if (!recipe) return;
  for (const std::string& printed : {to_yaml(*recipe), to_commented_yaml(*recipe)}) {
    const auto again = parse_or_refuse([&] { return parse_recipe(printed, "printed.yaml"); });
    require(again == recipe, "parse(print(recipe)) is the recipe: " + printed);
  }
  for (const Rule& rule : recipe->rules)
    for (const std::string& name : rule.match.name) check_pattern(name);
}

}  // namespace crumb::testing

// Recipes that are refused.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "base/error.h"
#include "quant/recipe/recipe.h"

namespace crumb::testing {

/// The message that a recipe is refused with; empty when it is taken.
inline std::string refusal(std::string_view text) {
  try {
    (void)parse_recipe(text, "mine.yaml");
    return {};
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUsage);
    return error.what();
  }
}

/// A recipe with one rule, in its third line.
inline std::string with_rule(const std::string& rule) { return "weights: int4\nrules:\n  - " + rule + "\n"; }

}  // namespace crumb::testing

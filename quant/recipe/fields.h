// The fields of a recipe, each declared once (fields.cpp). Reading YAML, messages about wrong keys, printing,
// the listing for help and the command line flags derive from these rows.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/recipe/recipe.h"

namespace crumb {

enum class FieldKind {
  kScalar,     ///< one scalar
  kList,       ///< a scalar, or a list of scalars
  kMatch,      ///< the map of a rule's match
  kGoal,       ///< one scalar, or a map of an accumulator's fields
  kPrune,      ///< one scalar, or a map of a pruning goal's fields
  kBitBudget,  ///< one scalar, or a map of a bit budget's fields
  kRules,      ///< a list of maps, a rule each
  kStages,     ///< a scalar or a map of one key, a stage's options; or a list of these
};

struct FieldInfo {
  std::string_view key;
  FieldKind kind;
  std::string_view type;     ///< the values that the field takes, for people: "SPEC or keep"
  std::string_view help;     ///< one line
  std::string_view example;  ///< an example of a value
  std::string_view flag;     ///< the flag of crumb quantize or of crumb train; empty where there is none
  bool required = false;
};

/// A row for a field of T: Recipe, Rule, Rule::Match, AccumulatorGoal, PruneGoal or BitBudget.
template <class T>
struct Field : FieldInfo {
  /// Sets the field from its scalars (kScalar, kGoal, kPrune, kBitBudget: exactly one). Throws Error(kUsage).
  void (*set)(T& owner, const std::vector<std::string>& values) = nullptr;
  /// Returns the scalars that set() needs to give this value again; none where the field is left out. Null
  /// for the fields of what is printed as one scalar (goals, budgets).
  std::vector<std::string> (*print)(const T& owner) = nullptr;
};

template <class T>
std::span<const Field<T>> fields_of();
template <>
std::span<const Field<Recipe>> fields_of<Recipe>();
template <>
std::span<const Field<Rule>> fields_of<Rule>();
template <>
std::span<const Field<Rule::Match>> fields_of<Rule::Match>();
template <>
std::span<const Field<AccumulatorGoal>> fields_of<AccumulatorGoal>();
template <>
std::span<const Field<PruneGoal>> fields_of<PruneGoal>();
template <>
std::span<const Field<BitBudget>> fields_of<BitBudget>();

/// Returns the row of a recipe's field. Precondition: there is a field with this key.
const Field<Recipe>& recipe_field(std::string_view key);

}  // namespace crumb

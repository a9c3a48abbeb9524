// Arithmetic on Levels: what ranges of whole numbers become. Internal to graph/facts.
//
// Nothing comes back where the result is on no grid that is known, or goes so far that float32 arithmetic between the
// operands could leave the nearest level (kMostExact).
#pragma once

#include <optional>
#include <span>

#include "graph/facts/infer_datatypes.h"

namespace crumb::graph {

/// Steps of computed values: float32 keeps them a quarter of a step apart.
inline constexpr double kMostExact = 4194304;  // 2^22

/// The zero points of a quantizer, from the least to the greatest.
struct Shifts {
  double low = 0, high = 0;
};

/// Nothing where there are none, and where they are not all whole numbers or all odd numbers of halves.
std::optional<Shifts> shifts_of(std::span<const double> zero_points);

/// The levels of integers less their zero points.
Levels shifted(Levels levels, Shifts shifts);

/// The same grid with another range; bits and sign as that needs them.
Levels ranged(Levels levels, double low, double high);

/// Whether both count the same steps: one scale, known and equal.
bool same_grid(const Levels& a, const Levels& b);

/// The level that a value is on the grid, to the float32 rounding of level times scale.
std::optional<double> level_of(const Levels& grid, double value);

/// The range of these values on the grid; nothing where one is not on it, or there are none.
std::optional<Levels> on_grid(const Levels& grid, std::span<const double> values);

/// Of values that come from either. The grids are the same.
std::optional<Levels> joined(const std::optional<Levels>& a, const std::optional<Levels>& b);

/// Odd halves as whole numbers of steps half as large; others as they are.
Levels whole_steps(Levels levels);

/// With the number zero among the values, which every grid has but that of halves.
std::optional<Levels> with_zero(const Levels& levels);

/// Of a + b and a - b; nothing where the grids differ.
std::optional<Levels> sum_of(const std::optional<Levels>& a, const std::optional<Levels>& b, bool subtracts);

/// Of -a.
Levels negated(Levels levels);

/// Times a constant, or divided by it: the levels stay, or change their signs. Nothing where a factor is zero or not
/// finite. Several factors give several scales.
std::optional<Levels> scaled(Levels levels, std::span<const double> factors, bool divides);

/// Of the sums of `count` values, each times its scale over `divisor`.
std::optional<Levels> summed(Levels levels, double count, double divisor);

/// Values above zero times `above`, those below times `below`, in steps of scale / divisor; all three whole.
std::optional<Levels> sloped(Levels levels, double above, double below, double divisor);

/// Bounds of the value itself, from its levels where it has no reach of its own.
std::optional<Reach> reach_of(const ValueType& value);

/// What an integer type, or a fixed-point type, says.
ValueType of_type(DataType type);

/// The least integer type of levels that are the values themselves, SCALEDINT of other levels, FLOAT32 of none.
DataType type_of(const std::optional<Levels>& levels);

}  // namespace crumb::graph

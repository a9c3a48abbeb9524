// Arithmetic on Levels: what ranges of whole numbers become. Internal to graph/facts.
//
// Functions return nothing where the result is on no known grid, or so large that float32 arithmetic between
// the operands could miss the nearest level (kMostExact).
#pragma once

#include <optional>
#include <span>

#include "graph/facts/infer_datatypes.h"

namespace crumb::graph {

/// Steps of computed values, at most: up to here float32 resolves a quarter of a step.
inline constexpr double kMostExact = 4194304;  // 2^22

/// The least and the greatest zero point of a quantizer.
struct Shifts {
  double low = 0, high = 0;
};

/// Nothing where there are no zero points, and where they are not all whole numbers or all odd numbers of
/// halves.
std::optional<Shifts> shifts_of(std::span<const double> zero_points);

/// Returns the levels of integers minus their zero points.
Levels shifted(Levels levels, Shifts shifts);

/// Returns the same grid with another range, and the bits and sign that it needs.
Levels ranged(Levels levels, double low, double high);

/// Whether both have the same steps: one scale, known and equal.
bool same_grid(const Levels& a, const Levels& b);

/// Returns the level of a value on the grid; the value may differ by the float32 rounding of level times
/// scale.
std::optional<double> level_of(const Levels& grid, double value);

/// Returns the range of these values on the grid; nothing where one is not on it, or there are none.
std::optional<Levels> on_grid(const Levels& grid, std::span<const double> values);

/// Returns the levels of values that come from either. Precondition: same grid.
std::optional<Levels> joined(const std::optional<Levels>& a, const std::optional<Levels>& b);

/// Returns odd halves as whole numbers of steps half as large; other levels as they are.
Levels whole_steps(Levels levels);

/// Returns the levels with zero added, which every grid has but that of halves.
std::optional<Levels> with_zero(const Levels& levels);

/// Returns the levels of a + b or a - b; nothing where the grids differ.
std::optional<Levels> sum_of(const std::optional<Levels>& a, const std::optional<Levels>& b, bool subtracts);

/// Returns the levels of -a.
Levels negated(Levels levels);

/// Returns the levels after multiplying by a constant, or dividing by it: they stay, or change their signs.
/// Nothing where a factor is zero or not finite. Several factors give several scales.
std::optional<Levels> scaled(Levels levels, std::span<const double> factors, bool divides);

/// Returns the levels of sums of `count` values whose scale is divided by `divisor`.
std::optional<Levels> summed(Levels levels, double count, double divisor);

/// Returns the levels of values above zero times `above` and below zero times `below`, in steps of scale /
/// divisor; all three are whole.
std::optional<Levels> sloped(Levels levels, double above, double below, double divisor);

/// Returns bounds of the value, from its levels where it has no reach of its own.
std::optional<Reach> reach_of(const ValueType& value);

/// Returns the range of an integer or fixed-point type.
ValueType of_type(DataType type);

/// Returns the narrowest integer type of levels that are the values themselves, SCALEDINT for other levels,
/// FLOAT32 for none.
DataType type_of(const std::optional<Levels>& levels);

}  // namespace crumb::graph

#include "graph/facts/level_arithmetic.h"

#include <algorithm>
#include <cmath>

namespace crumb::graph {
namespace {

constexpr double kLeastScale = 1e-30, kMostScale = 1e30;  // float32 holds multiples of a scale within

/// Returns nothing where float32 arithmetic does not keep to the grid.
std::optional<Levels> exact(Levels levels) {
  const double most = std::max(std::fabs(levels.low), std::fabs(levels.high)) / levels.unit();
  if (!(most <= kMostExact)) return {};
  const double scale = std::fabs(levels.scale.value_or(1));
  if (!(scale >= kLeastScale && scale <= kMostScale)) return {};
  return levels;
}

}  // namespace

std::optional<Shifts> shifts_of(std::span<const double> zero_points) {
  constexpr double kMostShift = 4194304;  // 2^22: up to here float32 holds the halves of zero points
  if (zero_points.empty()) return {};
  const auto is_whole = [](double shift) { return std::trunc(shift) == shift; };
  const double first = zero_points[0];
  Shifts shifts{first, first};
  for (const double shift : zero_points) {
    if (!is_whole(2 * shift) || !(std::fabs(shift) <= kMostShift) || is_whole(shift) != is_whole(first))
      return {};
    shifts = {std::min(shifts.low, shift), std::max(shifts.high, shift)};
  }
  return shifts;
}

Levels shifted(Levels levels, Shifts shifts) {
  if (shifts.low == 0 && shifts.high == 0) return levels;
  levels.halves = std::trunc(shifts.low) != shifts.low;
  return ranged(levels, levels.low - shifts.high, levels.high - shifts.low);
}

Levels ranged(Levels levels, double low, double high) {
  levels.low = low;
  levels.high = high;
  levels.is_signed = low < 0;
  if (levels.minifloat == 0)
    levels.bits = DataType::least_integer(low / levels.unit(), high / levels.unit()).bits();
  return levels;
}

bool same_grid(const Levels& a, const Levels& b) {
  return a.one_scale && b.one_scale && a.scale && a.scale == b.scale && a.halves == b.halves &&
         a.minifloat == b.minifloat;
}

std::optional<double> level_of(const Levels& grid, double value) {
  if (!std::isfinite(value)) return {};
  if (value == 0) return grid.halves ? std::nullopt : std::optional(0.0);
  if (!grid.one_scale || !grid.scale || !(std::fabs(*grid.scale) >= kLeastScale)) return {};
  double steps = std::round(value / *grid.scale / grid.unit() - (grid.halves ? 1 : 0));
  if (grid.halves) steps = 2 * std::round(steps / 2) + 1;  // odd halves
  const double level = steps * grid.unit();
  if (static_cast<float>(level * *grid.scale) != static_cast<float>(value)) return {};
  return level;
}

std::optional<Levels> on_grid(const Levels& grid, std::span<const double> values) {
  if (values.empty()) return {};
  double low = INFINITY, high = -INFINITY;
  for (const double value : values) {
    const auto level = level_of(grid, value);
    if (!level) return {};
    low = std::min(low, *level);
    high = std::max(high, *level);
  }
  return ranged(grid, low, high);
}

std::optional<Levels> joined(const std::optional<Levels>& a, const std::optional<Levels>& b) {
  if (!a || !b || !same_grid(*a, *b)) return {};
  Levels both = ranged(*a, std::min(a->low, b->low), std::max(a->high, b->high));
  both.assumed = a->assumed || b->assumed;
  return both;
}

Levels whole_steps(Levels levels) {
  if (!levels.halves) return levels;
  levels.halves = false;
  if (levels.scale) levels.scale = *levels.scale / 2;
  return ranged(levels, 2 * levels.low, 2 * levels.high);
}

std::optional<Levels> with_zero(const Levels& levels) {
  if (levels.halves) return {};
  return ranged(levels, std::min(levels.low, 0.0), std::max(levels.high, 0.0));
}

std::optional<Levels> sum_of(const std::optional<Levels>& a, const std::optional<Levels>& b, bool subtracts) {
  if (!a || !b || !same_grid(*a, *b)) return {};
  Levels sum = *a;
  sum.halves = false;  // the sum of two odd numbers is even: whole steps
  sum.assumed = a->assumed || b->assumed;
  return exact(
      ranged(sum, a->low + (subtracts ? -b->high : b->low), a->high + (subtracts ? -b->low : b->high)));
}

Levels negated(Levels levels) { return ranged(levels, -levels.high, -levels.low); }

std::optional<Levels> scaled(Levels levels, std::span<const double> factors, bool divides) {
  if (factors.empty()) return {};
  if (std::ranges::any_of(factors, [](double f) { return f == 0 || !std::isfinite(f); })) return {};
  const bool any_below = std::ranges::any_of(factors, [](double f) { return f < 0; });
  const bool any_above = std::ranges::any_of(factors, [](double f) { return f > 0; });
  if (any_below && any_above) {
    const double most = std::max(-levels.low, levels.high), least = std::min(levels.low, -levels.high);
    levels = ranged(levels, least, most);
  } else if (any_below) {
    levels = negated(levels);
  }
  const double by = std::fabs(factors[0]);
  if (std::ranges::any_of(factors, [&](double f) { return std::fabs(f) != by; })) {
    levels.one_scale = false;
    levels.scale.reset();
  } else if (levels.scale) {
    levels.scale = divides ? *levels.scale / by : *levels.scale * by;
  }
  return exact(levels);
}

std::optional<Levels> summed(Levels levels, double count, double divisor) {
  if (!levels.one_scale || !levels.scale || !(count >= 1 && count <= kMostExact)) return {};
  if (levels.halves) levels.halves = std::fmod(count, 2) == 1;
  levels = ranged(levels, levels.low * count, levels.high * count);
  levels.scale = *levels.scale / divisor;
  // The bound of the rounding of `count` additions, in steps.
  const double most = std::max(std::fabs(levels.low), std::fabs(levels.high)) / levels.unit();
  return most * count <= kMostExact ? exact(levels) : std::nullopt;
}

std::optional<Levels> sloped(Levels levels, double above, double below, double divisor) {
  if (!levels.positive) return {};
  levels = whole_steps(levels);
  double low = INFINITY, high = -INFINITY;
  const auto take = [&](double level, double slope) {
    low = std::min(low, level * slope);
    high = std::max(high, level * slope);
  };
  if (levels.high >= 0) {
    take(std::max(levels.low, 0.0), above);
    take(levels.high, above);
  }
  if (levels.low < 0) {
    take(levels.low, below);
    take(std::min(levels.high, 0.0), below);
  }
  levels = ranged(levels, low, high);
  if (levels.scale) levels.scale = *levels.scale / divisor;
  return exact(levels);
}

std::optional<Reach> reach_of(const ValueType& value) {
  if (value.reach) return value.reach;
  if (!value.levels || !value.levels->one_scale || !value.levels->scale) return {};
  const double a = value.levels->low * *value.levels->scale, b = value.levels->high * *value.levels->scale;
  return Reach{std::min(a, b), std::max(a, b), value.levels->assumed};
}

ValueType of_type(DataType type) {
  ValueType made{.type = type};
  if (type.is_integer()) {
    made.levels = {.low = *type.min(),
                   .high = *type.max(),
                   .bits = type.bits(),
                   .is_signed = type.is_signed(),
                   .scale = 1};
  } else if (type.is_fixed_point()) {
    const double all = std::exp2(type.bits() - 1);
    made.levels = {.low = -all, .high = all - 1, .bits = type.bits(), .scale = *type.min() / -all};
  }
  return made;
}

DataType type_of(const std::optional<Levels>& levels) {
  if (!levels) return {};
  const bool is_plain = levels->one_scale && levels->scale == 1.0 && levels->unit() == 1;
  return is_plain ? DataType::least_integer(levels->low, levels->high)
                  : DataType::scaled(std::clamp(levels->bits, 1, DataType::kMostBits));
}

}  // namespace crumb::graph

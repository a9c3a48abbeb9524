#include "models/graph/qonnx/levels.h"

#include <algorithm>
#include <cmath>

namespace crumb::graph {

Levels shifted(Levels levels, double shift) {
  if (shift == 0) return levels;
  levels.halves = std::trunc(shift) != shift;
  return ranged(levels, levels.low - shift, levels.high - shift);
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
  return a.one_scale && b.one_scale && a.scale && a.scale == b.scale && a.unit() == b.unit();
}

std::optional<Levels> sum_of(const ValueType& a, const ValueType& b, bool subtracts) {
  if (!a.levels || !b.levels || !same_grid(*a.levels, *b.levels)) return {};
  const Levels &x = *a.levels, &y = *b.levels;
  Levels sum = x;
  sum.halves = false;  // odd and odd make even: whole steps
  return ranged(sum, x.low + (subtracts ? -y.high : y.low), x.high + (subtracts ? -y.low : y.high));
}

std::optional<Levels> scaled(Levels levels, std::span<const double> factor, bool divides) {
  if (factor.empty()) return {};
  if (std::ranges::any_of(factor, [](double f) { return !(f > 0) || !std::isfinite(f); })) return {};
  if (factor.size() > 1) {
    levels.one_scale = false;
    levels.scale.reset();
  } else if (levels.scale) {
    levels.scale = divides ? *levels.scale / factor[0] : *levels.scale * factor[0];
  }
  return levels;
}

std::optional<Reach> reach_of(const ValueType& value) {
  if (value.reach) return value.reach;
  if (!value.levels || !value.levels->one_scale || !value.levels->scale) return {};
  const double scale = *value.levels->scale;
  return Reach{value.levels->low * scale, value.levels->high * scale};
}

}  // namespace crumb::graph

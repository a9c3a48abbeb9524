// Ranges of sums, products with constants, and functions of one number.
#include <algorithm>
#include <cmath>

#include "graph/facts/range_rules.h"
#include "graph/facts/usual_types.h"

namespace crumb::graph {
namespace {

constexpr double kMostSlope = 4096;

/// Returns 32 bits, as for every product and sum; a float where an operand is one.
DataType type_of_operands(const RangeCall& call) {
  std::vector<DataType> operands;
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    if (call.has(i)) operands.push_back(call.in(i).type);
  }
  return type_of_product(operands, call.node().op == "Sub");
}

/// Integers wrap around: levels that their type holds stay, otherwise only the type is known.
ValueType within_container(const RangeCall& call, ValueType made) {
  if (call.computes_in_float()) return made;
  const ElementType type = call.element_made();
  const std::optional<Levels> levels = made.levels;
  made.levels.reset();
  made.reach.reset();
  if (!is_integer(type)) return made;
  const ValueType container = of_type(exact_data_type(type));
  const bool holds = levels && container.levels && levels->one_scale && levels->scale == 1.0 &&
                     levels->low >= container.levels->low && levels->high <= container.levels->high;
  made.levels = holds ? levels : container.levels;
  return made;
}

ValueType sum_of_two(const RangeCall& call, bool subtracts) {
  ValueType made{.type = type_of_operands(call)};
  if (call.inputs() != 2) return {};
  if (const auto grid = call.grid_of(0, 2))
    made.levels = sum_of(call.levels_on(0, *grid), call.levels_on(1, *grid), subtracts);
  // A constant on whole steps added to levels on odd halves leaves them odd.
  for (const std::size_t i : {0U, 1U}) {
    const ValueType known = call.in(i);
    if (made.levels || !known.levels || !known.levels->halves || !call.is_constant(1 - i)) continue;
    Levels whole = *known.levels;
    whole.halves = false;
    const auto constant = call.constant(1 - i);
    const auto other = constant ? on_grid(whole, constant->values) : std::nullopt;
    Levels odd = *known.levels;
    odd.halves = false;
    auto sum = i == 0 ? sum_of(odd, other, subtracts) : sum_of(other, odd, subtracts);
    if (!sum) continue;
    sum->halves = true;
    made.levels = ranged(*sum, sum->low, sum->high);
  }
  return within_container(call, made);
}

ValueType product(const RangeCall& call, bool divides) {
  if (call.inputs() != 2) return {};
  const std::size_t data = call.is_constant(0) && !divides ? 1 : 0;
  ValueType made{.type = divides ? DataType() : type_of_operands(call)};
  const auto factor = call.is_constant(1 - data) ? call.constant(1 - data) : std::nullopt;
  const ValueType x = call.in(data);
  if (!call.computes_in_float()) {
    made.levels.reset();  // integers divide toward zero, and wrap
    return within_container(call, made);
  }
  if (!factor) return made;
  if (x.levels) made.levels = scaled(*x.levels, factor->values, divides);
  if (x.reach && factor->values.size() == 1 && factor->values[0] > 0 && std::isfinite(factor->values[0])) {
    const double by = divides ? 1 / factor->values[0] : factor->values[0];
    made.reach = Reach{x.reach->low * by, x.reach->high * by, x.reach->assumed};
  }
  return made;
}

/// Scales values below zero by a slope: a whole number, or 1 / a whole number, which makes all steps finer by
/// that.
std::optional<Levels> with_slope(const Levels& levels, double slope) {
  const double inverse = 1 / slope;
  if (std::trunc(slope) == slope && std::fabs(slope) <= kMostSlope) return sloped(levels, 1, slope, 1);
  if (std::trunc(inverse) != inverse || !(std::fabs(inverse) <= kMostSlope)) return {};
  const double divisor = std::fabs(inverse);
  return sloped(levels, divisor, slope < 0 ? -1 : 1, divisor);
}

ValueType of_levels(std::optional<Levels> levels) { return {.type = type_of(levels), .levels = levels}; }

}  // namespace

ValueType added(const RangeCall& call) { return sum_of_two(call, false); }
ValueType subtracted(const RangeCall& call) { return sum_of_two(call, true); }

/// Sum, and Mean, which is a sum on finer steps.
ValueType summed_up(const RangeCall& call) {
  const bool is_mean = call.node().op == "Mean";
  const std::size_t count = call.inputs();
  ValueType made{.type = is_mean ? DataType() : type_of_operands(call)};
  const auto grid = call.grid_of(0, count);
  if (!grid) return within_container(call, made);
  std::optional<Levels> levels = call.levels_on(0, *grid);
  for (std::size_t i = 1; i < count && levels; ++i) {
    const auto other = call.levels_on(i, *grid);
    // The sum of two odd halves is whole, the sum of three is odd again: one grid cannot hold both.
    if (levels->halves || (other && other->halves)) return within_container(call, made);
    levels = sum_of(levels, other, false);
  }
  if (levels && is_mean && count > 1) {
    const double by = static_cast<double>(count);
    levels = scaled(*levels, std::span(&by, 1), true);
  }
  made.levels = levels;
  return within_container(call, made);
}

ValueType multiplied(const RangeCall& call) { return product(call, false); }
ValueType divided(const RangeCall& call) { return product(call, true); }

ValueType negative(const RangeCall& call) {
  const ValueType x = call.in(0);
  return within_container(call, of_levels(x.levels ? std::optional(negated(*x.levels)) : std::nullopt));
}

ValueType magnitude(const RangeCall& call) {
  const ValueType x = call.in(0);
  if (!x.levels) return within_container(call, {});
  Levels levels = *x.levels;
  const double most = std::max(-levels.low, levels.high);
  const double least = levels.low > 0 ? levels.low : levels.high < 0 ? -levels.high : levels.halves ? 0.5 : 0;
  if (levels.positive) {
    levels = ranged(levels, least, most);
  } else {
    levels = ranged(levels, -most, most);  // the scale may have either sign
  }
  return within_container(call, of_levels(levels));
}

ValueType sign(const RangeCall&) { return of_type(DataType::ternary()); }

ValueType rectified(const RangeCall& call) {
  ValueType made = call.in(0);
  if (made.levels && made.levels->low < 0) made.levels = whole_steps(*made.levels);  // zero is a level now
  if (made.levels && made.levels->positive) {
    made.levels = ranged(*made.levels, std::max(made.levels->low, 0.0), std::max(made.levels->high, 0.0));
  } else if (made.levels) {
    made.levels = with_zero(*made.levels);
  }
  if (made.reach) {
    made.reach->low = std::max(made.reach->low, 0.0);
    made.reach->high = std::max(made.reach->high, 0.0);
  }
  if (made.type == DataType::bipolar()) made.type = DataType::integer(1, false);
  return made;
}

ValueType leaky(const RangeCall& call) {
  const ValueType x = call.in(0);
  if (!x.levels || !call.computes_in_float()) return {};
  const float slope = call.node().float_or("alpha", 0.01F);
  return of_levels(with_slope(*x.levels, slope));
}

ValueType parametric(const RangeCall& call) {
  const ValueType x = call.in(0);
  const auto slopes = call.is_constant(1) ? call.constant(1) : std::nullopt;
  if (!x.levels || !slopes || slopes->values.empty() || !call.computes_in_float()) return {};
  const auto& values = slopes->values;
  const auto [least, most] = std::ranges::minmax(values);
  if (least == most) return of_levels(with_slope(*x.levels, least));
  if (std::ranges::any_of(values, [](double v) { return std::trunc(v) != v; })) return {};
  const auto a = with_slope(*x.levels, least), b = with_slope(*x.levels, most);
  if (!a || !b) return {};
  return of_levels(ranged(*a, std::min(a->low, b->low), std::max(a->high, b->high)));
}

/// Bounds are attributes before version 11, then inputs; each must be on the grid, or be outside the range.
ValueType clipped(const RangeCall& call) {
  const Node& node = call.node();
  const ValueType x = call.in(0);
  ValueType made{.type = x.type};
  std::optional<double> bounds[2] = {-INFINITY, INFINITY};
  for (const std::size_t i : {0U, 1U}) {
    const char* name = i == 0 ? "min" : "max";
    if (node.version < 11) {
      if (node.has(name)) bounds[i] = node.float_or(name, 0);
    } else if (call.has(i + 1)) {
      bounds[i] = call.number(i + 1);
    }
    if (!bounds[i] || std::isnan(*bounds[i])) return made.type.is_integer() ? ValueType() : made;
  }
  if (!x.levels || !(*bounds[0] <= *bounds[1])) return made.type.is_integer() ? ValueType() : made;
  Levels levels = *x.levels;
  const auto unknown = [&] { return ValueType{.type = x.type.is_integer() ? DataType() : x.type}; };
  if (!levels.positive) return unknown();
  double low = levels.low, high = levels.high;
  for (const std::size_t i : {0U, 1U}) {
    const bool is_lower = i == 0;
    const double bound = *bounds[i];
    if (bound == (is_lower ? -INFINITY : INFINITY)) continue;
    const auto level = level_of(levels, bound);
    const bool is_known = levels.one_scale && levels.scale;
    const bool cuts = !is_known || (is_lower ? bound > low * *levels.scale : bound < high * *levels.scale);
    if (!cuts) continue;
    if (!level) return unknown();
    low = is_lower ? std::max(low, *level) : std::min(low, *level);
    high = is_lower ? std::max(high, *level) : std::min(high, *level);
  }
  made.levels = ranged(levels, low, high);
  if (made.type.is_integer()) {
    const DataType least = type_of(made.levels);
    if (!least.is_integer() || least.bits() < made.type.bits() || !made.type.allows(low) ||
        !made.type.allows(high))
      made.type = least;
    made.levels->bits = made.type.bits();
  }
  return made;
}

/// A cast keeps the range if the type holds every number: floats keep levels that they can count, integers
/// whole ones.
ValueType cast(const RangeCall& call) {
  const ValueType x = call.in(0);
  const ElementType to = call.element_made(), from = call.element_in(0);
  const auto is_wide = [](ElementType type) {
    return type == ElementType::kFloat || type == ElementType::kDouble;
  };
  if (is_integer(to)) {
    const ValueType container = of_type(exact_data_type(to));
    if (!x.levels || !x.levels->one_scale || x.levels->scale != 1.0 || x.levels->unit() != 1)
      return container;
    ValueType made{.type = container.type, .levels = x.levels};
    const bool holds = x.levels->low >= container.levels->low && x.levels->high <= container.levels->high;
    return holds ? made : container;
  }
  if (!is_wide(to) || !x.levels) return {};
  if (is_wide(from)) return x;
  const bool counts = is_integer(from) && std::max(-x.levels->low, x.levels->high) <= kMostExact;
  return counts ? x : ValueType();
}

}  // namespace crumb::graph

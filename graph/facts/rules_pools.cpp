// Ranges of averages: sums of levels, on steps that are finer by the number of values in the mean.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "graph/facts/range_rules.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;

/// Bounds a mean by the least and the greatest value, and by the zeros of the padding.
ValueType mean_somewhere(const RangeCall& call) {
  ValueType made;
  if (auto reach = reach_of(call.in(0))) {
    reach->low = std::min(reach->low, 0.0);
    reach->high = std::max(reach->high, 0.0);
    made.reach = reach;
  }
  return made;
}

/// Returns the range of the sum of `count` levels divided by `divisor`.
ValueType mean_of(const RangeCall& call, std::optional<Levels> levels, double count, double divisor) {
  ValueType made = divisor == count ? mean_somewhere(call) : ValueType();
  if (!call.computes_in_float()) return {};
  made.levels = levels ? summed(*levels, count, divisor) : std::nullopt;
  made.type = type_of(made.levels);
  if (made.levels) made.reach.reset();
  return made;
}

/// Returns the product of the sizes of these axes; nothing where one is open or there is no such axis.
std::optional<double> count_of(const std::optional<Shape>& shape, const Ints& axes) {
  if (!shape) return {};
  const auto rank = static_cast<std::int64_t>(shape->size());
  std::vector<bool> met(shape->size(), false);
  double count = 1;
  for (std::int64_t axis : axes) {
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || met[static_cast<std::size_t>(axis)]) return {};
    met[static_cast<std::size_t>(axis)] = true;
    const Dim& dim = (*shape)[static_cast<std::size_t>(axis)];
    if (!dim.known() || dim.size == 0) return {};
    count *= static_cast<double>(dim.size);
  }
  return count;
}

/// Returns how many elements a reduction sums. Axes are the attribute `axes` before version `since`, then the
/// second input; without either all axes, or none with noop_with_empty_axes. Nothing where the axes are
/// computed, or the shape is unknown.
std::optional<double> reduced_count(const RangeCall& call, std::int64_t since) {
  const Node& node = call.node();
  const auto shape = call.shape_in(0);
  if (!shape) return {};
  Ints axes(shape->size());
  std::iota(axes.begin(), axes.end(), 0);
  bool given = false;
  if (node.version < since) {
    given = node.has("axes");
    axes = node.ints_or("axes", axes);
  } else if (call.has(1)) {
    const auto constant = call.constant(1);
    if (!constant) return {};
    given = !constant->values.empty();
    if (given) {
      axes.clear();
      for (const double axis : constant->values) {
        if (!(std::fabs(axis) <= 64)) return {};
        axes.push_back(static_cast<std::int64_t>(axis));
      }
    }
  }
  if (!given && node.int_or("noop_with_empty_axes", 0) != 0) return 1;
  return count_of(shape, axes);
}

}  // namespace

/// AveragePool. The divisor is one number where no window covers padding, or where padding counts.
ValueType averaged(const RangeCall& call) {
  const Node& node = call.node();
  const Ints kernel = node.ints_or("kernel_shape", {}), pads = node.ints_or("pads", {});
  const std::string auto_pad = node.text_or("auto_pad", "NOTSET");
  const bool is_padded = std::ranges::any_of(pads, [](std::int64_t pad) { return pad != 0; });
  const bool border_counts = node.version >= 7 && node.int_or("count_include_pad", 0) != 0;
  double count = 1;
  for (const std::int64_t size : kernel) count *= static_cast<double>(size);
  if (kernel.empty() || !(count >= 1) || node.int_or("ceil_mode", 0) != 0 || (is_padded && !border_counts) ||
      (auto_pad != "NOTSET" && auto_pad != "VALID"))
    return mean_somewhere(call);
  auto levels = call.in(0).levels;
  if (levels && is_padded) levels = with_zero(*levels);
  ValueType made = mean_of(call, levels, count, count);
  if (!made.levels) made.reach = mean_somewhere(call).reach;
  return made;
}

/// GlobalAveragePool.
ValueType averaged_all(const RangeCall& call) {
  const auto shape = call.shape_in(0);
  Ints axes(shape && shape->size() > 2 ? shape->size() - 2 : 0);
  std::iota(axes.begin(), axes.end(), 2);
  const auto count = axes.empty() ? std::nullopt : count_of(shape, axes);
  return count ? mean_of(call, call.in(0).levels, *count, *count) : mean_somewhere(call);
}

ValueType reduced_to_mean(const RangeCall& call) {
  const auto count = reduced_count(call, 18);
  return count ? mean_of(call, call.in(0).levels, *count, *count) : mean_somewhere(call);
}

ValueType reduced_to_sum(const RangeCall& call) {
  const auto count = reduced_count(call, 13);
  return count ? mean_of(call, call.in(0).levels, *count, 1) : ValueType();
}

/// QuantAvgPool2d: the sum of a window's integers, shifted right until the largest that `ibits` allow fits
/// `obits`.
ValueType quantized_average(const RangeCall& call) {
  const Node& node = call.node();
  const std::int64_t kernel = node.int_or("kernel", 1), in_bits = node.int_or("ibits", 1),
                     out_bits = node.int_or("obits", 1);
  const auto levels = call.in(0).levels;
  if (kernel < 1 || kernel > 4096 || in_bits < 1 || in_bits > 32 || out_bits < 1 || out_bits > 64) return {};
  if (!levels || !levels->one_scale || levels->scale != 1.0 || levels->unit() != 1) return {};
  const auto count = static_cast<double>(kernel * kernel);
  const auto sums = summed(*levels, count, 1);
  if (!sums) return {};
  const std::uint64_t largest =
      ((std::uint64_t{1} << in_bits) - 1) * static_cast<std::uint64_t>(kernel * kernel);
  const std::int64_t shift =
      std::max<std::int64_t>(static_cast<std::int64_t>(std::bit_width(largest)) - out_bits, 0);
  const double by = std::exp2(static_cast<double>(-shift));
  ValueType made{.levels = ranged(*sums, std::floor(sums->low * by), std::floor(sums->high * by))};
  made.type = type_of(made.levels);
  const DataType claimed = DataType::integer(static_cast<int>(out_bits), node.int_or("signed", 0) != 0);
  if (claimed.allows(made.levels->low) && claimed.allows(made.levels->high)) made.type = claimed;
  return made;
}

}  // namespace crumb::graph

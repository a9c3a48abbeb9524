// Ranges of quantizers' outputs: their codes minus the zero point.
#include <algorithm>
#include <array>
#include <cmath>

#include "graph/facts/range_rules.h"
#include "graph/qonnx/quant_arithmetic.h"

namespace crumb::graph {
namespace {

constexpr std::size_t kMostThresholds = 1 << 20;

/// Returns levels with this scale; nothing where a scale is zero or NaN.
std::optional<Levels> with_scale(Levels levels, const std::optional<ConstantValue>& scale) {
  levels.one_scale = scale && scale->values.size() == 1;
  levels.scale.reset();
  levels.positive = scale.has_value();
  if (!scale) return levels;
  for (const double value : scale->values) {
    if (value == 0 || !std::isfinite(value)) return {};
    levels.positive = levels.positive && value > 0;
  }
  if (levels.one_scale) levels.scale = scale->values[0];
  return levels;
}

/// A scale that nodes compute may have any value; a constant one that cannot be computed here may be zero.
std::optional<ConstantValue> scale_of(const RangeCall& call) { return call.constant(1); }

/// Whether the levels are the values themselves.
bool is_plain(const std::optional<ConstantValue>& scale) { return scale && scale->all_are(1); }

std::optional<QuantRounding> rounding_of(const Node& node, const char* otherwise) {
  return find_quant_rounding(node.text_or("rounding_mode", otherwise));
}

std::optional<IntegerFormat> format_of(const RangeCall& call, std::size_t width) {
  const auto bits = call.number(width);
  if (!bits || !(*bits > 0 && *bits <= DataType::kMostBits)) return {};
  return IntegerFormat{.bits = *bits,
                       .is_signed = call.node().int_or("signed", 1) != 0,
                       .narrow = call.node().int_or("narrow", 0) != 0};
}

struct Codes {
  double low = 0, high = 0;
};

/// Returns the bounds, rounded as values are, over both float32 and float64, because the operands' types
/// choose one of them. In narrow formats of less than a bit the lower bound exceeds the upper one; it is
/// applied last, so that every value becomes it.
Codes codes_of(IntegerFormat format, QuantRounding mode) {
  const double low = rounded(format.lower(), mode), high = rounded(format.upper(), mode);
  format.wide = true;
  const double wide_low = rounded(format.lower(), mode, true),
               wide_high = rounded(format.upper(), mode, true);
  return {std::min(low, wide_low), std::max({high, wide_high, low, wide_low})};
}

}  // namespace

ValueType integer_quantizer(const RangeCall& call) {
  const auto format = format_of(call, 3);
  if (!format) return {};
  const int whole = static_cast<int>(std::ceil(format->bits));
  const auto scale = scale_of(call), zero = call.constant(2);
  const bool centred = zero && zero->all_are(0), plain = is_plain(scale);
  DataType type = DataType::scaled(whole);
  if (plain && centred)
    type = format->is_bipolar() ? DataType::bipolar() : DataType::integer(whole, format->is_signed);
  const auto mode = rounding_of(call.node(), "ROUND");
  if (!mode || !zero) return {.type = type};
  const auto shifts = shifts_of(zero->values);
  if (!shifts) return {.type = type};
  const Codes codes = format->is_bipolar() ? Codes{-1, 1} : codes_of(*format, *mode);
  auto levels = with_scale(
      {.low = codes.low, .high = codes.high, .bits = whole, .is_signed = format->is_signed}, scale);
  if (!levels) return {.type = type};
  levels = shifted(*levels, *shifts);
  if (plain && !levels->halves && !centred) type = DataType::least_integer(levels->low, levels->high);
  return {.type = type, .levels = levels};
}

ValueType bipolar_quantizer(const RangeCall& call) {
  const auto scale = scale_of(call);
  const auto levels = with_scale({.low = -1, .high = 1, .bits = 1}, scale);
  return {.type = is_plain(scale) ? DataType::bipolar() : DataType::scaled(1), .levels = levels};
}

ValueType float_quantizer(const RangeCall& call) {
  const Node& node = call.node();
  std::array<int, 3> fields{};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto number = call.number(i + 2);
    if (!number || std::trunc(*number) != *number || std::fabs(*number) > 1000) return {};
    fields[i] = static_cast<int>(*number);
  }
  if (fields[0] < 1 || fields[0] > 8 || fields[1] < 0 || fields[1] > 23) return {};
  ValueType made{.type = DataType::floating(fields[0], fields[1], fields[2])};
  const auto most = call.number(5);
  if (!most || !(*most > 0) || node.int_or("saturation", 1) == 0 || !rounding_of(node, "ROUND")) return made;
  const FloatFormat format{.exponent_bits = double(fields[0]),
                           .mantissa_bits = double(fields[1]),
                           .exponent_bias = double(fields[2]),
                           .max_value = *most,
                           .has_inf = node.int_or("has_inf", 0) != 0,
                           .has_nan = node.int_or("has_nan", 0) != 0};
  const double limit = static_cast<float>(format.largest());
  const double unit = std::exp2(1 - fields[1] - fields[2]);
  if (!std::isfinite(limit) || std::trunc(limit / unit) != limit / unit) return made;
  made.levels =
      with_scale({.low = -limit, .high = limit, .bits = made.type.bits(), .minifloat = unit}, scale_of(call));
  return made;
}

/// Version 2 (six inputs) changes to its own scale and clamps to its own width; version 1 (five inputs) keeps
/// the scale and drops the difference of the widths.
ValueType truncated(const RangeCall& call) {
  const Node& node = call.node();
  const bool is_second = node.version >= 2;
  if (call.inputs() != (is_second ? 6U : 5U)) return {};
  const auto scale = call.number(1), zero = call.number(2), in_bits = call.number(3);
  const auto out_bits = call.number(is_second ? 5 : 4), out_scale = is_second ? call.number(4) : scale;
  const auto mode = rounding_of(node, "FLOOR");
  const bool are_scales = scale && out_scale && *scale > 0 && *out_scale > 0 && std::isfinite(*scale) &&
                          std::isfinite(*out_scale);
  if (!are_scales || zero != 0.0 || !in_bits || !out_bits || !mode) return {};
  if (!(*out_bits >= 1 && *out_bits <= DataType::kMostBits && std::fabs(*in_bits) <= 64)) return {};
  ValueType made{.type = DataType::scaled(static_cast<int>(std::ceil(*out_bits)))};
  const double by = std::exp2(is_second ? std::round(std::log2(*out_scale / *scale)) : *in_bits - *out_bits);
  std::optional<Codes> codes;
  bool assumed = false;
  if (const auto reach = reach_of(call.in(0))) {
    // The value itself may be off by some float32 roundings.
    constexpr double kSlack = 1e-5;
    const auto code = [&](double x, double slack) {
      const double steps = x / *scale;
      return rounded(std::nearbyint(steps + slack * std::fabs(steps)) / by, *mode, true);
    };
    codes = Codes{code(reach->low, -kSlack), code(reach->high, kSlack)};
    assumed = reach->assumed;
  }
  if (is_second) {
    const auto format = format_of(call, 5);
    if (!format) return {};
    const Codes all = codes_of(*format, *mode);
    if (!codes) codes = all;
    const bool is_inside = codes->low >= all.low && codes->high <= all.high;
    codes = Codes{std::clamp(codes->low, all.low, all.high), std::clamp(codes->high, all.low, all.high)};
    if (!is_inside && codes->low == all.low && codes->high == all.high) assumed = false;
  }
  if (!codes || !(std::max(-codes->low, codes->high) <= kMostExact)) return made;
  made.levels = ranged({.scale = out_scale, .assumed = assumed}, codes->low, codes->high);
  return made;
}

/// MultiThreshold: the number of a channel's thresholds that a value reaches, times out_scale, plus out_bias.
/// The claimed type counts where it holds all of these numbers.
ValueType thresholds(const RangeCall& call) {
  const Node& node = call.node();
  const auto steps = call.constant(1);
  if (!steps || steps->shape.size() != 2 || steps->shape[0] < 1 || steps->values.size() > kMostThresholds)
    return {};
  std::size_t most = 0;
  const auto width = static_cast<std::size_t>(steps->shape[1]);
  for (std::size_t first = 0; first + width <= steps->values.size() && width > 0; first += width) {
    const auto row = std::span(steps->values).subspan(first, width);
    most = std::max(
        most, static_cast<std::size_t>(std::ranges::count_if(row, [](double t) { return !std::isnan(t); })));
  }
  const double by = node.float_or("out_scale", 1), bias = node.float_or("out_bias", 0);
  const auto count = static_cast<double>(most);
  if (!std::isfinite(by) || !std::isfinite(bias) || count > 2048) return {};
  const double ends[] = {bias, bias + by * count};
  const double low = std::min(ends[0], ends[1]), high = std::max(ends[0], ends[1]);
  ValueType made;
  if (std::trunc(by) == by && std::trunc(bias) == bias && std::max(-low, high) <= kMostExact) {
    made.levels = ranged({.scale = 1}, low, high);
    const bool is_bipolar = count == 1 && low == -1 && high == 1;
    made.type = is_bipolar ? DataType::bipolar() : type_of(made.levels);
    const auto claimed = DataType::parse(node.text_or("out_dtype", "FLOAT32"));
    bool holds = claimed.ok() && claimed.value().is_integer();
    for (double i = 0; i <= count && holds; ++i) holds = claimed.value().allows(bias + by * i);
    if (holds) made.type = claimed.value();
    return made;
  }
  const double step = std::fabs(by);
  if (step == 0) return {};
  const auto start = level_of({.scale = step}, bias);
  const auto odd = level_of({.halves = true, .scale = step}, bias);
  if (!start && !odd) return {};
  const double first = start ? *start : *odd, last = first + (by > 0 ? count : -count);
  if (!(std::fabs(first) <= kMostExact)) return {};
  made.levels = ranged({.halves = !start, .scale = step}, std::min(first, last), std::max(first, last));
  made.type = type_of(made.levels);
  return made;
}

/// QuantizeLinear: the range is that of the codes' type.
ValueType quantized_linearly(const RangeCall& call) {
  ElementType type = ElementType::kUint8;
  if (call.has(2)) {
    type = call.element_in(2);
  } else if (call.node().version >= 21) {
    if (const auto to = element_type_of(call.node().int_or("output_dtype", 0)); to && is_integer(*to)) {
      type = *to;
    } else if (call.node().has("output_dtype") && call.node().int_or("output_dtype", 0) != 0) {
      return {.type = exact_data_type(to.value_or(ElementType::kFloat))};
    }
  }
  return is_integer(type) ? of_type(exact_data_type(type)) : ValueType{.type = exact_data_type(type)};
}

/// SCALEDINT of the container's width, or of the range that a Clip in front leaves.
ValueType dequantized_linearly(const RangeCall& call) {
  const ValueType codes = call.in(0);
  if (codes.type.is_float()) return {.type = codes.type};
  const auto scale = scale_of(call), zero = call.constant(2);
  const double none[] = {0};
  const auto shifts = !call.has(2) ? shifts_of(none) : zero ? shifts_of(zero->values) : std::nullopt;
  ValueType made{.type = DataType::scaled(codes.type.bits())};
  const ElementType container = call.element_in(0);
  const bool are_codes = codes.levels && codes.levels->one_scale && codes.levels->scale == 1.0 &&
                         codes.levels->unit() == 1 && is_integer(container);
  const ElementType unit = call.element_in(1);
  const bool is_wide = unit == ElementType::kFloat || unit == ElementType::kDouble;
  if (!are_codes || !is_wide || !shifts || std::trunc(shifts->low) != shifts->low) return made;
  auto levels = with_scale(*codes.levels, scale);
  if (!levels) return made;
  made.levels = shifted(*levels, *shifts);
  if (is_plain(scale)) {
    made.type = shifts->low == 0 && shifts->high == 0
                    ? codes.type
                    : DataType::least_integer(made.levels->low, made.levels->high);
  }
  return made;
}

/// QLinearConv and QLinearMatMul: the range is that of the type of the result's zero point.
ValueType quantized_product(const RangeCall& call) {
  const ElementType type = call.element_in(7);
  return is_integer(type) ? of_type(exact_data_type(type)) : ValueType();
}

ValueType quantized_dynamically(const RangeCall&) { return of_type(DataType::integer(8, false)); }

}  // namespace crumb::graph

#include "graph/qonnx/quant_arithmetic.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/text/ascii_case.h"
#include "graph/strided_index.h"
#include "graph/tensor.h"

namespace crumb::graph {
namespace {

/// Returns the result of one step in float32 or float64. Rounding a float64 result of +, -, *, / of float32
/// numbers to float32 gives the float32 result.
double as_step(double x, bool wide) { return wide ? x : static_cast<double>(static_cast<float>(x)); }

double sign_of(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x == 0 ? 0.0 : x; }

double half_even(double x) {
  const double near = std::nearbyint(x);  // the processor's default mode is ties to even
  return std::copysign(near, x);
}

Failure no_broadcast(const char* what, const QuantOperand& part, const QuantOperand& x) {
  return Failure{std::string(what) + " has the shape " + text_of(part.shape) +
                 ", which does not broadcast to that of the values, " + text_of(x.shape)};
}

}  // namespace

std::optional<QuantRounding> find_quant_rounding(std::string_view name) {
  struct Row {
    std::string_view name;
    QuantRounding mode;
  };
  constexpr std::array kRows = {
      Row{"ROUND", QuantRounding::kHalfEven}, Row{"HALF_EVEN", QuantRounding::kHalfEven},
      Row{"CEIL", QuantRounding::kCeil},      Row{"FLOOR", QuantRounding::kFloor},
      Row{"UP", QuantRounding::kUp},          Row{"DOWN", QuantRounding::kDown},
      Row{"HALF_UP", QuantRounding::kHalfUp}, Row{"HALF_DOWN", QuantRounding::kHalfDown},
  };
  for (const Row& row : kRows) {
    if (std::ranges::equal(row.name, name, {}, {}, to_upper)) return row.mode;
  }
  return {};
}

double rounded(double x, QuantRounding mode, bool wide) {
  switch (mode) {
    case QuantRounding::kHalfEven: break;
    case QuantRounding::kCeil: return std::ceil(x);
    case QuantRounding::kFloor: return std::floor(x);
    case QuantRounding::kUp: return sign_of(x) * std::ceil(std::fabs(x));
    case QuantRounding::kDown: return std::trunc(x);
    case QuantRounding::kHalfUp: return sign_of(x) * std::floor(as_step(std::fabs(x) + 0.5, wide));
    case QuantRounding::kHalfDown: return sign_of(x) * std::ceil(as_step(std::fabs(x) - 0.5, wide));
  }
  return half_even(x);
}

double IntegerFormat::lower() const {
  if (!is_signed) return 0;
  const double all = as_step(std::exp2(as_step(bits - 1, wide)), wide);
  return narrow ? as_step(-all + 1, wide) : -all;
}

double IntegerFormat::upper() const {
  if (is_signed) return as_step(as_step(std::exp2(as_step(bits - 1, wide)), wide) - 1, wide);
  return as_step(as_step(std::exp2(bits), wide) - (narrow ? 2 : 1), wide);
}

double FloatFormat::largest() const {
  const double own =
      (2 - std::exp2(-mantissa_bits)) * std::exp2(std::exp2(exponent_bits) - 1 - exponent_bias);
  return std::min(own, max_value);
}

Result<Quantized> quantize(const QuantOperand& x, const QuantOperand& scale, const QuantOperand& zero_point,
                           const IntegerFormat& format, QuantRounding mode) {
  auto of_scale = StridedIndex::broadcast(x.shape, scale.shape);
  if (!of_scale) return no_broadcast("the scale", scale, x);
  auto of_zero = StridedIndex::broadcast(x.shape, zero_point.shape);
  if (!of_zero) return no_broadcast("the zero point", zero_point, x);
  const bool quotient_wide = x.wide || scale.wide, wide = quotient_wide || zero_point.wide;
  const double lower = as_step(format.lower(), wide), upper = as_step(format.upper(), wide);
  Quantized made;
  made.values.resize(x.values.size());
  made.integers.resize(x.values.size());
  for (std::size_t i = 0; i < x.values.size(); ++i, of_scale->next(), of_zero->next()) {
    const double s = scale.values[of_scale->at()], z = zero_point.values[of_zero->at()];
    double u = as_step(as_step(x.values[i] / s, quotient_wide) + z, wide);
    if (format.is_bipolar()) {
      u = u >= 0 ? 1 : -1;
    } else {
      u = u > upper ? upper : u;
      u = u < lower ? lower : u;
      u = rounded(u, mode, wide);
    }
    made.integers[i] = u;
    made.values[i] = static_cast<float>(as_step(as_step(u - z, wide) * s, wide));
  }
  return made;
}

Result<Quantized> quantize_bipolar(const QuantOperand& x, const QuantOperand& scale) {
  auto of_scale = StridedIndex::broadcast(x.shape, scale.shape);
  if (!of_scale) return no_broadcast("the scale", scale, x);
  Quantized made;
  made.values.resize(x.values.size());
  made.integers.resize(x.values.size());
  for (std::size_t i = 0; i < x.values.size(); ++i, of_scale->next()) {
    made.integers[i] = x.values[i] >= 0 ? 1 : -1;
    made.values[i] = static_cast<float>(made.integers[i] * scale.values[of_scale->at()]);
  }
  return made;
}

Result<Quantized> quantize_float(const QuantOperand& x, const QuantOperand& scale, const FloatFormat& format,
                                 QuantRounding mode) {
  auto of_scale = StridedIndex::broadcast(x.shape, scale.shape);
  if (!of_scale) return no_broadcast("the scale", scale, x);
  const bool wide = x.wide || scale.wide;
  const double limit = as_step(format.largest(), wide), mantissa = format.mantissa_bits;
  const double least = static_cast<float>(1 - format.exponent_bias - mantissa);
  const double tiny = wide ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  Quantized made;
  made.values.resize(x.values.size());
  for (std::size_t i = 0; i < x.values.size(); ++i, of_scale->next()) {
    const double s = scale.values[of_scale->at()], u = as_step(x.values[i] / s, wide);
    // Computed in the type of the values, as in the reference: just below a power of two its logarithm may
    // round up.
    const double magnitude = as_step(std::fabs(u) + tiny, wide);
    const double logarithm = wide ? std::log2(magnitude) : std::log2(static_cast<float>(magnitude));
    const double exponent = std::max<double>(std::floor(logarithm) - static_cast<float>(mantissa), least);
    const double step = as_step(std::exp2(std::isnan(u) ? u : exponent), wide);
    double q = as_step(step * rounded(as_step(u / step, wide), mode, wide), wide);
    const bool above = q > limit, below = q < -limit;
    q = above ? limit : below ? -limit : q;
    if (!format.saturates && format.has_inf) {
      q = above ? INFINITY : below ? -INFINITY : q;
    } else if (!format.saturates && format.has_nan) {
      q = above || below ? NAN : q;
    } else if (!format.saturates) {
      return Failure{
          "values beyond the limit are not clamped, and there is neither infinity nor NaN for them"};
    }
    made.values[i] = static_cast<float>(as_step(q, wide) * s);
  }
  return made;
}

}  // namespace crumb::graph

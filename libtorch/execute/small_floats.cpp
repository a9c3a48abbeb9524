#include "libtorch/execute/small_floats.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "formats/number/number_format.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const NumberFormat& format_of(ElementType type) {
  if (!is_small_float(type)) throw Error(std::string(graph::name_of(type)) + " is no float below 16 bits");
  return *find_number_format(dtype_info(*graph::info(type).dtype).number_format);
}

/// floor(log2 |x|) of finite values other than 0; whatever it is for the rest. Subnormals count by value.
at::Tensor exponent_of(const at::Tensor& x) { return std::get<1>(at::frexp(x)) - 1; }

/// 2^exponent for exponents of normal numbers, by its bits: exact on every device.
at::Tensor power_of_two(const at::Tensor& exponent, at::ScalarType type) {
  if (type == at::kDouble) return (exponent.to(at::kLong) + 1023).bitwise_left_shift(52).view(at::kDouble);
  return (exponent.to(at::kInt) + 127).bitwise_left_shift(23).view(at::kFloat);
}

/// The power is cut to e8m0's range; 2^-127 needs float's subnormals.
at::Tensor rounded_power(const at::Tensor& x, SmallFloatRounding rounding) {
  const at::Tensor size = x.abs().to(at::kDouble);
  const auto [mantissa, exponent] = at::frexp(size);  // size = mantissa * 2^exponent, mantissa in [0.5, 1)
  at::Tensor power = exponent - 1;
  if (rounding.power == PowerRounding::kUp) power = power + (mantissa > 0.5);
  if (rounding.power == PowerRounding::kNearest) power = power + (mantissa >= 0.75);
  at::Tensor result = power_of_two(power.clamp(-127, 127), at::kDouble);
  result = at::where(size == 0, std::ldexp(1.0, -127), result);
  result = at::where(size == std::numeric_limits<double>::infinity(), std::ldexp(1.0, 127), result);
  at::Tensor invalid = size.isnan();
  if (!rounding.saturate) {
    const at::Tensor beyond = (size == 0).logical_or(power < -127).logical_or(power > 127);
    invalid = invalid.logical_or(beyond).logical_or(size.isinf());
  }
  return result.masked_fill(invalid, kNan).to(at::kFloat);
}

}  // namespace

bool is_small_float(ElementType type) { return graph::is_float(type) && graph::info(type).bits < 16; }

at::Tensor round_mantissa(const at::Tensor& values, int mantissa_bits, int least_exponent) {
  const at::Tensor finite = at::where(values.isfinite(), values, 0.0);
  const at::Tensor exponent = exponent_of(finite).clamp_min(least_exponent);
  const at::Tensor unit = power_of_two(exponent - mantissa_bits, values.scalar_type());
  return at::where(values.isfinite(), at::round(finite / unit) * unit, values);
}

double largest_small_float(ElementType type) {
  if (type == ElementType::kFloat8E8M0) return std::ldexp(1.0, 127);
  return format_of(type).largest_value(Range::kFull);
}

at::Tensor round_to_small_float(const at::Tensor& values, ElementType type, SmallFloatRounding rounding) {
  const NumberFormat& format = format_of(type);
  if (values.is_complex()) throw Error("complex values cannot be rounded to " + std::string(format.name));
  const bool wide = values.scalar_type() == at::kDouble || values.scalar_type() == at::kLong ||
                    values.scalar_type() == at::kInt;
  const at::Tensor x = values.to(wide ? at::kDouble : at::kFloat);
  if (type == ElementType::kFloat8E8M0) return rounded_power(x, rounding);

  at::Tensor rounded = round_mantissa(x, format.mantissa_bits, 1 - format.bias);
  const double largest = largest_small_float(type);
  if (rounding.saturate || format.specials == Specials::kNone) {
    rounded = rounded.clamp(-largest, largest);
  } else {
    const at::Tensor over = rounded.abs() > largest;
    const bool infinite = format.specials == Specials::kIeee;
    const double beyond = infinite ? std::numeric_limits<double>::infinity() : kNan;
    rounded = at::where(over, at::copysign(at::full({}, beyond, x.options()), x), rounded);
  }
  if (format.specials == Specials::kNone) rounded = at::where(x.isnan(), 0.0, rounded);
  if (format.specials == Specials::kFnuz) rounded = rounded + 0.0;  // -0 becomes 0
  return rounded.to(at::kFloat);
}

}  // namespace crumb::libtorch

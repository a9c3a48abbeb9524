// QONNX's FloatQuant: minifloats of any exponent and mantissa width.
//
// The unit in the last place comes from floor(log2 |x|) with a float32 logarithm, as in the reference: just
// below a power of two that logarithm may round up to it, which the directed rounding modes show.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/files/text.h"
#include "libtorch/execute/ops/not_finite.h"
#include "libtorch/execute/ops/numbers.h"
#include "libtorch/execute/ops/qonnx_kernels.h"
#include "libtorch/execute/ops/quantizer_loop.h"
#include "libtorch/execute/ops/straight_through.h"

namespace crumb::libtorch {
namespace {

/// floor(log2f(x)) for normal x > 0. Only close to the next power of two does the logarithm itself matter.
float floor_log2(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  constexpr std::uint32_t kClose = 0x7FFE00;  // a float32 logarithm rounds up from 2^-18 below at most
  if ((bits & 0x7FFFFF) >= kClose || bits >= 0x7F800000) return std::floor(std::log2(x));
  return static_cast<float>(static_cast<int>(bits >> 23) - 127);
}

/// The node's attributes except for its scale.
struct MiniFloat {
  double mantissa_bits = 0;
  double least_exponent = 0;  ///< of the unit in the last place: 1 - bias - mantissa bits
  double limit = 0;           ///< largest magnitude; a double, as NumPy's arithmetic has it
  Rounding mode = Rounding::kHalfEven;
  bool saturates = true;
  double beyond =
      0;  ///< used for what is over the limit where the node does not saturate; takes the sign of the value

  double clipped(double q) const {
    double v = q < -limit ? -limit : q;
    v = v > limit ? limit : v;
    if (!saturates && (q > limit || q < -limit)) v = std::isnan(beyond) ? beyond : std::copysign(beyond, q);
    return v;
  }
};

double number_of(const Call& call, std::size_t i) {
  if (call.tensor(i).numel() != 1) {
    call.fail("input " + std::to_string(i) + " is " + text_of(call.in(i)) + ", expected one number");
  }
  return call.tensor(i).detach().to(at::kDouble).item<double>();
}

/// The largest value if no code were reserved: (2 - 2^-M) 2^(2^E - 1 - bias), where the power is a float32
/// number as long as its inputs are.
double largest_value(double exponent_bits, double mantissa_bits, double bias, bool wide) {
  double mantissa = 0;
  for (int i = 0; i < static_cast<int>(std::ceil(mantissa_bits + 1)); ++i) mantissa += std::ldexp(1.0, -i);
  if (wide) return mantissa * std::exp2(std::exp2(exponent_bits) - 1 - bias);
  const float top = std::exp2(static_cast<float>(exponent_bits)) - 1.0F - static_cast<float>(bias);
  return mantissa * std::exp2(top);
}

MiniFloat mini_float(const Call& call) {
  MiniFloat format;
  const std::string name = call.text_or("rounding_mode", "ROUND");
  const auto mode = find_rounding(name);
  if (!mode) call.fail("rounding_mode is " + quote_text(name) + ", which is none of QONNX's");
  format.mode = *mode;
  bool wide = false;
  for (const std::size_t i : {2, 4}) wide = wide || as_number(call.in(i)).scalar_type() == at::kDouble;
  const double bias = number_of(call, 4);
  format.mantissa_bits = number_of(call, 3);
  if (!(format.mantissa_bits >= 0 && format.mantissa_bits < 1100)) {
    call.fail("a mantissa of " + std::to_string(format.mantissa_bits) + " bits");
  }
  format.least_exponent = 1.0 - bias - format.mantissa_bits;
  format.limit = largest_value(number_of(call, 2), format.mantissa_bits, bias, wide);
  if (call.has(5)) {
    const double most = number_of(call, 5);
    format.limit = std::isnan(most) || most < format.limit ? most : format.limit;
  }
  format.saturates = call.int_or("saturation", 1) != 0;
  if (format.saturates) return format;
  if (call.int_or("has_inf", 0) != 0) {
    format.beyond = std::numeric_limits<double>::infinity();
  } else if (call.int_or("has_nan", 0) != 0) {
    format.beyond = std::numeric_limits<double>::quiet_NaN();
  } else {
    call.fail("saturation is 0, but the format has neither infinities (has_inf) nor NaN (has_nan)");
  }
  return format;
}

/// The quantized values of u, as doubles.
at::Tensor quantized(const at::Tensor& u, const MiniFloat& format) {
  const at::NoGradGuard no_gradients;
  const at::ScalarType type = u.scalar_type();
  const double tiny = type == at::kDouble ? std::numeric_limits<double>::min()
                      : type == at::kHalf ? 0x1p-14
                                          : std::numeric_limits<float>::min();
  // A logarithm in double, rounded, is the float32 one.
  at::Tensor exponent = at::floor(at::log2((u.abs() + tiny).to(at::kDouble)).to(type)) - format.mantissa_bits;
  exponent = at::where(exponent < format.least_exponent, format.least_exponent, exponent).to(type);
  const at::Tensor unit = at::exp2(exponent.to(at::kDouble)).to(type);
  const at::Tensor q = (unit * rounded(u / unit, format.mode)).to(at::kDouble);
  at::Tensor made = q.clamp(-format.limit, format.limit);
  if (format.saturates) return made;
  made = at::where(q > format.limit, format.beyond, made);
  return at::where(q < -format.limit, -format.beyond, made);
}

}  // namespace

Outputs float_quant(const Call& call) {
  const bool holds_nan = call.int_or("has_nan", 0) != 0, holds_infinity = call.int_or("has_inf", 0) != 0;
  if (!holds_nan || !holds_infinity) note_not_finite(call, !holds_nan, !holds_infinity);
  const MiniFloat format = mini_float(call);
  const at::Tensor& x = call.tensor(0);
  const bool plain = call.type(0) == graph::ElementType::kFloat && call.type(1) == graph::ElementType::kFloat;
  if (plain && !differentiated(x) && !differentiated(call.tensor(1))) {
    if (const auto rows = row_parameters<1>(x, {call.tensor(1)})) {
      const auto mantissa_bits = static_cast<float>(format.mantissa_bits);
      const auto least = static_cast<float>(format.least_exponent);
      return lane::with_rounding(format.mode, [&]<Rounding Mode>() {
        const auto quantize = [&](float v, const std::array<float, 1>& p) {
          const float u = v / p[0];
          float exponent = floor_log2(std::fabs(u) + std::numeric_limits<float>::min()) - mantissa_bits;
          exponent = exponent < least ? least : exponent;
          const float unit = std::exp2(exponent);
          const float q = unit * lane::rounded<Mode>(u / unit);
          return static_cast<float>(format.clipped(q) * static_cast<double>(p[0]));
        };
        return one(map_rows(x, *rows, quantize, call.may_overwrite(0)), graph::ElementType::kFloat);
      });
    }
  }
  const at::Tensor scale = as_number(call.in(1));
  const at::Tensor u = quotient_of(as_number(call.in(0)), scale);
  const at::Tensor q = quantized(u, format);
  at::Tensor pass;
  if (differentiated(u)) pass = (q.abs() <= format.limit).logical_and(u.abs() <= format.limit);
  return one(product_of(straight_through(u, q, pass), scale).to(at::kFloat), graph::ElementType::kFloat);
}

}  // namespace crumb::libtorch

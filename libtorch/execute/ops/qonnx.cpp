// QONNX's integer quantizers, and the table of its operators.
//
// Each exists twice: as one loop for float32 on the CPU, and as ATen operators for every other type and
// device and where gradients are wanted. Both follow the reference operation by operation: a true division by
// the scale, the zero point added, clamped and only then rounded, in the types that NumPy would give.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>

#include "base/files/text.h"
#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/not_finite.h"
#include "libtorch/execute/ops/numbers.h"
#include "libtorch/execute/ops/qonnx_kernels.h"
#include "libtorch/execute/ops/quantizer_loop.h"
#include "libtorch/execute/ops/straight_through.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;
using graph::kQonnxDomain;

Rounding rounding_of(const Call& call, const char* otherwise) {
  const std::string name = call.text_or("rounding_mode", otherwise);
  const auto mode = find_rounding(name);
  if (!mode) {
    call.fail("rounding_mode is " + quote_text(name) +
              ", expected ROUND, HALF_EVEN, CEIL, FLOOR, UP, DOWN, HALF_UP or HALF_DOWN");
  }
  return *mode;
}

struct Bounds {
  at::Tensor lower, upper;

  at::Tensor clamped(const at::Tensor& u) const {
    const at::Tensor below = at::where(u > upper, upper, u);
    return at::where(below < lower, lower, below);
  }
  at::Tensor hold(const at::Tensor& u) const { return (u >= lower).logical_and(u <= upper); }
};

struct IntegerRange {
  bool is_signed;
  bool narrow;

  /// For widths of any kind, fractions too: in the width's own type.
  template <class T>
  std::pair<T, T> bounds(T bits) const {
    const T all = is_signed ? std::pow(T{2}, bits - T{1}) : std::pow(T{2}, bits);
    if (is_signed) return {narrow ? -all + T{1} : -all, all - T{1}};
    return {T{0}, narrow ? all - T{2} : all - T{1}};
  }

  /// In the shape of `bits`, with u's type and device.
  Bounds bounds_of(const at::Tensor& bits, const at::Tensor& u) const {
    const bool wide = bits.scalar_type() == at::kDouble;
    const at::Tensor widths = bits.detach().to(at::kCPU, at::kDouble).contiguous();
    at::Tensor lower = at::empty_like(widths), upper = at::empty_like(widths);
    for (std::int64_t i = 0; i < widths.numel(); ++i) {
      const double width = widths.const_data_ptr<double>()[i];
      const std::pair<double, double> found =
          wide ? bounds(width) : std::pair<double, double>(bounds(static_cast<float>(width)));
      lower.mutable_data_ptr<double>()[i] = found.first;
      upper.mutable_data_ptr<double>()[i] = found.second;
    }
    return {lower.to(u.device(), u.scalar_type()), upper.to(u.device(), u.scalar_type())};
  }
};

/// u clamped and rounded. The gradient passes where the rounded value lies within the bounds, as it does for
/// all of Crumb's grids (libtorch/pass_band.h).
at::Tensor to_integers(const at::Tensor& u, const at::Tensor& bits, const IntegerRange& range,
                       Rounding mode) {
  at::Tensor made, pass;
  const at::Tensor one_bit = (bits == 1).to(u.device());
  const bool mixed = range.is_signed && one_bit.any().item<bool>();
  const bool wanted = differentiated(u);  // asked before gradients are switched off
  {
    const at::NoGradGuard no_gradients;
    const Bounds bounds = range.bounds_of(bits, u);
    made = rounded(bounds.clamped(u), mode);
    if (mixed) made = at::where(one_bit, at::where(u >= 0, 1.0, -1.0).to(u.scalar_type()), made);
    if (wanted) {
      pass = bounds.hold(u).logical_or(bounds.hold(rounded(u, mode)));
      if (mixed) pass = at::where(one_bit, u.abs() <= 1, pass);
    }
  }
  return straight_through(u, made, pass);
}

/// The value of an input that has to be one number.
double number_of(const Call& call, std::size_t i) {
  if (call.tensor(i).numel() != 1) {
    call.fail("input " + std::to_string(i) + " is " + text_of(call.in(i)) + ", expected one number");
  }
  return call.tensor(i).detach().to(at::kDouble).item<double>();
}

bool all_plain(const Call& call, std::initializer_list<std::size_t> inputs) {
  for (const std::size_t i : inputs) {
    if (call.type(i) != ElementType::kFloat || differentiated(call.tensor(i))) return false;
  }
  return true;
}

/// Values of input 0 that integers have no codes for are counted, where somebody asks.
void note_beyond(const Call& call) { note_not_finite(call, true, true); }

Outputs as_float(const at::Tensor& result) { return one(result.to(at::kFloat), ElementType::kFloat); }

}  // namespace

Outputs int_quant(const Call& call) {
  note_beyond(call);
  const IntegerRange range{call.int_or("signed", 1) != 0, call.int_or("narrow", 0) != 0};
  const Rounding mode = rounding_of(call, "ROUND");
  const at::Tensor& x = call.tensor(0);
  const bool spare = call.may_overwrite(0);
  if (all_plain(call, {0, 1, 2, 3}) && call.tensor(3).numel() == 1) {
    if (const auto rows = row_parameters<2>(x, {call.tensor(1), call.tensor(2)})) {
      const auto bits = static_cast<float>(number_of(call, 3));
      if (bits == 1 && range.is_signed) {
        return one(map_rows(
                       x, *rows,
                       [](float v, const std::array<float, 2>& p) CRUMB_LANE {
                         const float u = v / p[0] + p[1];
                         return ((u >= 0 ? 1.0F : -1.0F) - p[1]) * p[0];
                       },
                       spare),
                   ElementType::kFloat);
      }
      const auto [lower, upper] = range.bounds(bits);
      const float lo = lower, hi = upper;
      return lane::with_rounding(mode, [&]<Rounding Mode>() {
        const auto quantize = [lo, hi](float v, const std::array<float, 2>& p) CRUMB_LANE {
          float u = v / p[0] + p[1];
          u = u > hi ? hi : u;
          u = u < lo ? lo : u;
          return (lane::rounded<Mode>(u) - p[1]) * p[0];
        };
        return one(map_rows(x, *rows, quantize, spare), ElementType::kFloat);
      });
    }
  }
  const at::Tensor scale = as_number(call.in(1)), zero = as_number(call.in(2));
  const at::Tensor u = sum_of(quotient_of(as_number(call.in(0)), scale), zero);
  const at::Tensor q = to_integers(u, as_number(call.in(3)), range, mode);
  return as_float(product_of(difference_of(q, zero), scale));
}

Outputs bipolar_quant(const Call& call) {
  note_beyond(call);
  const at::Tensor& x = call.tensor(0);
  const bool spare = call.may_overwrite(0);
  if (all_plain(call, {0, 1})) {
    if (const auto rows = row_parameters<1>(x, {call.tensor(1)})) {
      const auto quantize = [](float v, const std::array<float, 1>& p)
                                CRUMB_LANE { return v >= 0 ? p[0] : -p[0]; };
      return one(map_rows(x, *rows, quantize, spare), ElementType::kFloat);
    }
  }
  const at::Tensor value = as_number(call.in(0)), scale = as_number(call.in(1)).to(value.device());
  const at::Tensor signs = at::where(value >= 0, 1.0, -1.0).to(value.scalar_type());
  if (!at::GradMode::is_enabled() || !(value.requires_grad() || scale.requires_grad())) {
    return as_float(product_of(signs, scale));
  }
  const at::Tensor u = quotient_of(value, scale);
  const at::Tensor sign = signs.expand(u.sizes()).to(u.scalar_type());
  return as_float(product_of(straight_through(u, sign, u.abs() <= 1), scale));
}

namespace {

/// Version 1 divides by a power of two, and leaves scale and zero point as they are.
Outputs trunc_1(const Call& call, Rounding mode) {
  const at::Tensor& x = call.tensor(0);
  const bool spare = call.may_overwrite(0);
  if (all_plain(call, {0, 1, 2, 3, 4}) && call.tensor(3).numel() == 1 && call.tensor(4).numel() == 1) {
    if (const auto rows = row_parameters<2>(x, {call.tensor(1), call.tensor(2)})) {
      const float by =
          std::exp2(static_cast<float>(number_of(call, 3)) - static_cast<float>(number_of(call, 4)));
      return lane::with_rounding(mode, [&]<Rounding Mode>() {
        const auto truncate = [by](float v, const std::array<float, 2>& p) CRUMB_LANE {
          const float u = lane::half_even(v / p[0] + p[1]) / by;
          return (lane::rounded<Mode>(u) - p[1]) * p[0];
        };
        return one(map_rows(x, *rows, truncate, spare), ElementType::kFloat);
      });
    }
  }
  const at::Tensor scale = as_number(call.in(1)), zero = as_number(call.in(2));
  const at::Tensor bits = difference_of(as_number(call.in(3)), as_number(call.in(4))).detach();
  const at::Tensor by = at::exp2(bits.to(at::kDouble)).to(bits.scalar_type());
  at::Tensor u = sum_of(quotient_of(as_number(call.in(0)), scale), zero);
  u = straight_through(u, rounded(u, Rounding::kHalfEven));
  u = quotient_of(u, by);
  u = straight_through(u, rounded(u, mode));
  return as_float(product_of(difference_of(u, zero), scale));
}

/// Version 2 goes over to an output scale, whose ratio to the input's is rounded to a power of two, and
/// clamps.
Outputs trunc_2(const Call& call, Rounding mode) {
  const IntegerRange range{call.int_or("signed", 1) != 0, call.int_or("narrow", 0) != 0};
  const at::Tensor scale = as_number(call.in(1)), zero = as_number(call.in(2));
  const at::Tensor out_scale = as_number(call.in(4));
  const at::Tensor ratio = quotient_of(out_scale, scale).detach();
  const at::Tensor by =
      at::exp2(at::round(at::log2(ratio.to(at::kDouble)).to(ratio.scalar_type())).to(at::kDouble))
          .to(ratio.scalar_type());
  const at::Tensor out_zero = quotient_of(zero, by.to(zero.device()));
  const at::Tensor& x = call.tensor(0);
  const bool spare = call.may_overwrite(0);
  if (all_plain(call, {0, 1, 2, 3, 4, 5}) && call.tensor(5).numel() == 1) {
    if (const auto rows = row_parameters<5>(x, {scale, zero, by, out_scale, out_zero})) {
      const auto [lower, upper] = range.bounds(static_cast<float>(number_of(call, 5)));
      const float lo = lower, hi = upper;
      return lane::with_rounding(mode, [&]<Rounding Mode>() {
        const auto truncate = [lo, hi](float v, const std::array<float, 5>& p) CRUMB_LANE {
          float u = lane::half_even(v / p[0] + p[1]) / p[2];
          u = u > hi ? hi : u;
          u = u < lo ? lo : u;
          return (lane::rounded<Mode>(u) - p[4]) * p[3];
        };
        return one(map_rows(x, *rows, truncate, spare), ElementType::kFloat);
      });
    }
  }
  at::Tensor u = sum_of(quotient_of(as_number(call.in(0)), scale), zero);
  u = straight_through(u, rounded(u, Rounding::kHalfEven));
  u = quotient_of(u, by);
  // A width of 1 is no special case here: both bounds count.
  const at::Tensor bits = as_number(call.in(5));
  const Bounds bounds = range.bounds_of(bits, u);
  at::Tensor made, pass;
  const bool wanted = differentiated(u);
  {
    const at::NoGradGuard no_gradients;
    made = rounded(bounds.clamped(u), mode);
    if (wanted) pass = bounds.hold(u).logical_or(bounds.hold(rounded(u, mode)));
  }
  u = straight_through(u, made, pass);
  return as_float(product_of(difference_of(u, out_zero), out_scale));
}

}  // namespace

Outputs trunc_quant(const Call& call) {
  const Rounding mode = rounding_of(call, "FLOOR");
  return call.version() >= 2 ? trunc_2(call, mode) : trunc_1(call, mode);
}

namespace {

constexpr OperatorRow kQonnxRows[] = {
    {"Quant", int_quant, kQonnxDomain},
    {"IntQuant", int_quant, kQonnxDomain},
    {"BipolarQuant", bipolar_quant, kQonnxDomain},
    {"Trunc", trunc_quant, kQonnxDomain},
    {"FloatQuant", float_quant, kQonnxDomain},
    {"MultiThreshold", multi_threshold, kQonnxDomain},
    {"XnorPopcountMatMul", xnor_popcount_matmul, kQonnxDomain},
    {"Im2Col", im2col, kQonnxDomain},
    {"MaxPoolNHWC", max_pool_nhwc, kQonnxDomain},
    {"QuantAvgPool2d", quant_avg_pool_2d, kQonnxDomain},
};

}  // namespace

std::span<const OperatorRow> qonnx_operators() { return kQonnxRows; }

}  // namespace crumb::libtorch

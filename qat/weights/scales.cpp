#include "qat/weights/scales.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/number/scale_format.h"
#include "libtorch/execute/ops/straight_through.h"
#include "quant/codes/given_scales.h"

namespace crumb::qat {

double lsq_factor(const QuantSpec& spec, std::int64_t values) {
  const double largest = static_cast<double>(spec.number->largest_value(spec.range));
  return 1 / std::sqrt(std::max(1.0, static_cast<double>(values) * std::max(largest, 1.0)));
}

namespace {

/// Computes what stored_scale gives on the scales' own device, for formats that LibTorch has; else returns
/// undefined.
at::Tensor rounded_there(const QuantSpec& spec, const at::Tensor& scales) {
  const auto as = [&](at::ScalarType type, double least, double most) {
    return scales.to(at::kFloat).clamp(least, most).to(type).to(at::kFloat);
  };
  switch (spec.scale) {
    case ScaleFormat::kF32: return scales.to(at::kFloat).clamp_min(std::numeric_limits<float>::min());
    case ScaleFormat::kF16:
      if (const int halvings = halvings_of_scale(spec); halvings > 0) {
        const double step = std::ldexp(0x1p-24, halvings);
        const at::Tensor few = scales.to(at::kFloat).div(step).round().clamp_min(1).mul(step);
        return at::where(scales < std::ldexp(0x1p-14, halvings), few, as(at::kHalf, 0x1p-24, 65504));
      }
      return as(at::kHalf, 0x1p-24, 65504);
    case ScaleFormat::kBF16: return as(at::kBFloat16, std::numeric_limits<float>::min(), 0x1.FEp127);
    case ScaleFormat::kE8M0:
    case ScaleFormat::kE4M3: break;
  }
  return {};
}

}  // namespace

at::Tensor stored_scales(const QuantSpec& spec, const at::Tensor& scales) {
  if (!scales.is_cpu()) {
    if (const at::Tensor made = rounded_there(spec, scales.detach()); made.defined())
      return libtorch::straight_through(scales, made);
  }
  const at::Tensor made = scales.detach().to(at::kCPU, at::kFloat).contiguous().clone();
  float* s = made.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < made.numel(); ++i) {
    s[i] = stored_scale(spec, std::max(s[i], std::numeric_limits<float>::min()));
  }
  return libtorch::straight_through(scales, made.to(scales.device()));
}

at::Tensor used_scales(const QuantSpec& spec, const at::Tensor& parameter, double factor) {
  const at::Tensor size = parameter.abs();
  const at::Tensor made = stored_scales(spec, size.detach());
  return libtorch::straight_through(size, made, {}, at::full_like(made, factor));
}

at::Tensor used_zero_points(const QuantSpec& spec, const at::Tensor& parameter) {
  const at::Tensor made = parameter.detach().to(at::kCPU, at::kFloat).contiguous().clone();
  float* z = made.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < made.numel(); ++i) {
    if (spec.zero == ZeroPoint::kInteger) {
      z[i] = std::clamp(std::nearbyint(z[i]), static_cast<float>(spec.number->least_code(spec.range)),
                        static_cast<float>(spec.number->greatest_code(spec.range)));
    } else {
      const ScaleFormat format = zero_point_format(spec.scale);
      z[i] = decode_scale(format, encode_float(format, z[i]));
    }
  }
  return libtorch::straight_through(parameter, made.to(parameter.device()));
}

}  // namespace crumb::qat

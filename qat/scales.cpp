#include "qat/scales.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/number/scale_format.h"
#include "libtorch/execute/ops/straight_through.h"
#include "quant/given_scales.h"

namespace crumb::qat {
double lsq_factor(const QuantSpec& spec, std::int64_t values) {
  const double largest = static_cast<double>(spec.number->largest_value(spec.range));
  return 1 / std::sqrt(std::max(1.0, static_cast<double>(values) * std::max(largest, 1.0)));
}

at::Tensor stored_scales(const QuantSpec& spec, const at::Tensor& scales) {
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

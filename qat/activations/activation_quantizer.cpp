#include "qat/activations/activation_quantizer.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "libtorch/fake_quantize.h"
#include "qat/weights/scales.h"

namespace crumb::qat {

ActivationQuantizer::ActivationQuantizer(const QuantSpec& spec) : spec_(spec) {
  scale_ = register_parameter("scale", torch::ones({1}));
  if (spec.zero != ZeroPoint::kNone) zero_point_ = register_buffer("zero_point", torch::zeros({1}));
}

void ActivationQuantizer::set(float scale, float zero_point) {
  const torch::NoGradGuard no_gradients;
  scale_.fill_(scale);
  if (zero_point_.defined()) zero_point_.fill_(zero_point);
}

at::Tensor ActivationQuantizer::forward(const at::Tensor& values, const QuantSpec& spec) {
  const std::int64_t samples = values.dim() > 1 ? std::max<std::int64_t>(values.size(0), 1) : 1;
  const at::Tensor scale = used_scales(spec, scale_, lsq_factor(spec, values.numel() / samples));
  return fake_quantize(values, scale, zero_point_.defined() ? std::optional(zero_point_) : std::nullopt,
                       spec);
}

float ActivationQuantizer::scale() const { return used_scales(spec_, scale_.detach(), 1).item<float>(); }

float ActivationQuantizer::zero_point() const {
  return zero_point_.defined() ? zero_point_.item<float>() : 0;
}

}  // namespace crumb::qat

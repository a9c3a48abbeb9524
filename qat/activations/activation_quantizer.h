// One scale for the values of an edge, or of several that share it: from calibration, then learned by LSQ
// (arXiv:1902.08153) with its gradient scale 1 / sqrt(N Qp), N the values of one sample. A zero point, where the spec
// has one, stays what calibration found.
#pragma once

#include <torch/nn/module.h>

#include "quant/quant_spec.h"

namespace crumb::qat {

class ActivationQuantizer : public torch::nn::Module {
 public:
  explicit ActivationQuantizer(const QuantSpec& spec);

  /// What calibration found.
  void set(float scale, float zero_point);

  /// The values as quantized; gradients to them and to the scale. `spec`: of this edge; those that share a scale may
  /// differ in sign.
  at::Tensor forward(const at::Tensor& values, const QuantSpec& spec);

  float scale() const;  ///< as used: stored in the spec's scale format
  float zero_point() const;

 private:
  QuantSpec spec_;
  at::Tensor scale_, zero_point_;
};

}  // namespace crumb::qat

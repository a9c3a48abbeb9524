// One scale for the values of an edge, or of several edges that share it. Calibration finds the scale, then
// LSQ (arXiv:1902.08153) learns it with its gradient scale 1 / sqrt(N Qp), N the values of one sample. A zero
// point, where the spec has one, stays as calibration found it.
#pragma once

#include <torch/nn/module.h>

#include "quant/quant_spec.h"

namespace crumb::qat {

class ActivationQuantizer : public torch::nn::Module {
 public:
  explicit ActivationQuantizer(const QuantSpec& spec);

  /// Takes what calibration found.
  void set(float scale, float zero_point);

  /// Returns the values as quantized, with gradients to them and to the scale. `spec` is this edge's; edges
  /// that share a scale may differ in sign.
  at::Tensor forward(const at::Tensor& values, const QuantSpec& spec);

  float scale() const;  ///< as it is used: stored in the spec's scale format
  float zero_point() const;

 private:
  QuantSpec spec_;
  at::Tensor scale_, zero_point_;
};

}  // namespace crumb::qat

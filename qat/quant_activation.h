// Quantizes activations where a module's forward() says so.
//
//   relu1 = register_module("relu1", qat::QuantActivation("uint4:tensor:search=ema"));
//   x = relu1(torch::relu(fc1(x)));
//
// In training mode the first `observed` forward passes collect statistics as the spec's search says (absmax,
// percentile, mse, ema) and quantize by the statistics so far; then the scale is a parameter, learned by LSQ.
// Eval mode uses what is known. One scale for each token ("int8:token") follows from the values in every
// pass, and is never learned. models::capture records the module as a quantizer.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <string>

#include "graph/quantize/statistics.h"
#include "qat/activations/activation_quantizer.h"

namespace crumb::qat {

class QuantActivationImpl : public torch::nn::Module {
 public:
  /// spec: one for activations ("uint4:tensor", "int8:token"). Throws Error(kUsage).
  explicit QuantActivationImpl(const std::string& spec, std::int64_t observed = 100);
  explicit QuantActivationImpl(const QuantSpec& spec, std::int64_t observed = 100);

  /// Throws Error where values are negative although the spec has no sign, while statistics are collected
  /// (for tokens: in training mode), and in eval mode before any were collected.
  at::Tensor forward(const at::Tensor& values);

  const QuantSpec& spec() const { return spec_; }

 private:
  void observe(const at::Tensor& values);
  void refuse_negative(double least) const;

  QuantSpec spec_;
  std::int64_t observed_;
  std::shared_ptr<ActivationQuantizer> quantizer_;  ///< null where the spec is dynamic
  std::unique_ptr<graph::EdgeStatistics> statistics_;
  at::Tensor seen_;  ///< number of observed forward passes: a buffer, so that it is saved
};
TORCH_MODULE(QuantActivation);

}  // namespace crumb::qat

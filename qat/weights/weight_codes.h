// What weight quantizers share: LibTorch's tensors as quant/ takes them, codes of a weight whose scales are
// known, parameters that keep their handles.
#pragma once

#include <ATen/Parallel.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <span>
#include <vector>

#include "quant/codes/given_scales.h"
#include "quant/quantized_tensor.h"

namespace crumb::qat {

inline std::vector<std::uint64_t> shape_of(const at::Tensor& x) {
  return {x.sizes().begin(), x.sizes().end()};
}

inline at::Tensor plain(const at::Tensor& x) { return x.detach().to(at::kCPU, at::kFloat).contiguous(); }

inline std::span<const float> span_of(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), static_cast<std::size_t>(x.numel())};
}

inline QuantizedTensor codes_under(const QuantSpec& spec, const at::Tensor& values,
                                   const at::Tensor& scales) {
  const at::Tensor x = plain(values), s = plain(scales);
  return quantize_with_scales(spec, span_of(x), shape_of(x), {.scales = span_of(s)}, at::get_num_threads());
}

/// Registers a parameter, or sets the one that is there: optimizers keep its handle.
inline void set_parameter(torch::nn::Module& owner, const char* name, at::Tensor& parameter,
                          const at::Tensor& values) {
  if (parameter.defined()) {
    parameter.copy_(values);
  } else {
    parameter = owner.register_parameter(name, values.clone());
  }
}

}  // namespace crumb::qat

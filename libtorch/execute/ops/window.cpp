#include "libtorch/execute/ops/window.h"

#include <ATen/ATen.h>

namespace crumb::libtorch {

std::size_t spatial_axes(const Call& call, const at::Tensor& input) {
  if (input.dim() < 3) {
    call.fail("expected an input of 3 or more axes (batch, channels, sizes), found " +
              std::to_string(input.dim()));
  }
  return static_cast<std::size_t>(input.dim() - 2);
}

Window window_of(const Call& call, const at::Tensor& input, std::vector<std::int64_t> kernel,
                 bool may_round_up) {
  const std::size_t axes = spatial_axes(call, input);
  return graph::window_of(call.node(), input.sizes().slice(2, axes), std::move(kernel), may_round_up);
}

KeptResult kept_of(const Call& call, const at::Tensor& input, const std::vector<std::int64_t>& kernel,
                   const std::vector<std::int64_t>& strides, const std::vector<std::int64_t>& dilations) {
  return graph::kept_of(call.node(), input.sizes().slice(2, kernel.size()), kernel, strides, dilations);
}

std::vector<std::int64_t> sizes_attribute(const Call& call, const char* name, std::size_t count,
                                          std::int64_t otherwise) {
  return graph::sizes_attribute(call.node(), name, count, otherwise);
}

at::Tensor padded(const at::Tensor& input, const std::vector<std::int64_t>& begin,
                  const std::vector<std::int64_t>& end, const at::Scalar& value) {
  std::vector<std::int64_t> pads;  // the last axis first
  bool any = false;
  for (std::size_t i = begin.size(); i-- > 0;) {
    pads.push_back(begin[i]);
    pads.push_back(end[i]);
    any = any || begin[i] != 0 || end[i] != 0;
  }
  return any ? at::constant_pad_nd(input, pads, value) : input;
}

}  // namespace crumb::libtorch

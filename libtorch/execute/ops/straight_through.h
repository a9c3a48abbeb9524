// Rounding and clamping whose gradient is that of the straight-through estimator.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "libtorch/execute/ops/rounding.h"

namespace crumb::libtorch {

/// `made` in the forward pass; the gradient goes to `u` where `pass` is, and times `slope` where that is
/// given. made, pass and slope are constants.
at::Tensor straight_through(const at::Tensor& u, at::Tensor made, const at::Tensor& pass = {},
                            const at::Tensor& slope = {});

/// Whether a result computed from this tensor is to be differentiated.
inline bool differentiated(const at::Tensor& t) { return at::GradMode::is_enabled() && t.requires_grad(); }

}  // namespace crumb::libtorch

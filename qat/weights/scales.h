// Scales as a forward pass uses them: as their format stores them, with straight-through gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "quant/quant_spec.h"

namespace crumb::qat {

/// Returns LSQ's gradient scale 1 / sqrt(N Qp): N values share the scale, Qp is the grid's largest value.
double lsq_factor(const QuantSpec& spec, std::int64_t values);

/// Rounds scales to the spec's scale format, at least its smallest positive one; the gradient passes.
/// float32.
at::Tensor stored_scales(const QuantSpec& spec, const at::Tensor& scales);

/// Returns a learned scale's magnitude as stored; multiplies the gradient by `factor`.
at::Tensor used_scales(const QuantSpec& spec, const at::Tensor& parameter, double factor);

/// Returns a learned zero point, rounded to a whole number within the codes where the spec says int; the
/// gradient passes.
at::Tensor used_zero_points(const QuantSpec& spec, const at::Tensor& parameter);

}  // namespace crumb::qat

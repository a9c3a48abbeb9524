// Scales as a forward pass uses them: what their format stores, with straight-through gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "quant/quant_spec.h"

namespace crumb::qat {

/// LSQ's gradient scale 1 / sqrt(N Qp): N values share the scale, Qp is the grid's largest value.
double lsq_factor(const QuantSpec& spec, std::int64_t values);

/// Rounded to the spec's scale format, at least the smallest positive one; the gradient passes. float32.
at::Tensor stored_scales(const QuantSpec& spec, const at::Tensor& scales);

/// A learned scale: its magnitude, stored; the gradient times `factor`.
at::Tensor used_scales(const QuantSpec& spec, const at::Tensor& parameter, double factor);

/// A learned zero point: whole and within the codes where the spec says int; the gradient passes.
at::Tensor used_zero_points(const QuantSpec& spec, const at::Tensor& parameter);

}  // namespace crumb::qat

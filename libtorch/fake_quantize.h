// Fake quantization for training: a tensor's values after quantizing and dequantizing, as LibTorch operators
// with straight-through gradients. Codes come from the loops of quant/, so what training sees is what a file
// will hold.
//
//   y = fake_quantize(x, spec)                      scales searched as the spec says;
//                                                   y is dequantize(quantize(x)), bit for bit.
//                                                   The scales count as constants for
//                                                   the gradient
//   y = fake_quantize(x, scale, zero_point, spec)   scales (and zero points) given, with gradients to them
//
//   dispatcher: crumb::fake_quantize(Tensor x, str spec) -> Tensor
//               crumb::fake_quantize.scaled(Tensor x, Tensor scale, Tensor? zero_point, str spec) -> Tensor
//
// Both trace as one node crumb::fake_quantize; a program that loads such a graph calls register_operators()
// (libtorch/operators.h) first.
//
// Tensors: any strides; y is contiguous, of x's shape, type and device. The arithmetic is float32 on the CPU:
// float16, bfloat16 and float64 are converted, and y is rounded back (only float64 and float32 hold every
// quantized value). A tensor of another device travels to the CPU and back: slow, the same bits. Meta tensors
// give shapes and the same errors about them. The threads are torch::get_num_threads(); their number changes
// no bit, gradients included.
//
// Gradients: rounding passes them on, clamping stops them. They pass where the value, rounded, lies within
// the grid (libtorch/pass_band.h); libtorch/scaled_quantizer.h has the formulas for scale and zero
// point (LSQ, without its factor 1 / sqrt(N Qp), which is the caller's). y is differentiable once in scale
// and zero point.
//
// Errors are crumb::Error: a wrong spec, a shape that its groups do not divide (without pad), inf or NaN.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "quant/quant_spec.h"

namespace crumb {

at::Tensor fake_quantize(const at::Tensor& x, const std::string& spec);
at::Tensor fake_quantize(const at::Tensor& x, const QuantSpec& spec);

/// One scale a token ("int8:token", a spec of activations): of each run along the last axis, found in every
/// pass. The searched form alone takes it.
///
/// With given scales: one per block, in the order of formats/number/encoding.h (row by row: [rows] for
/// channel, [rows, cols / N] flattened for group=N), in a floating tensor of any shape with that many
/// elements. They are the factors between codes and values, used as they are: the spec's scale format,
/// MXINT8's 2^-6 and NVFP4's tensor scale do not apply (round before where a file's values are wanted:
/// find_scales gives such). A scale of 0 makes its block 0; a negative one is an error. A zero point per
/// block must be given where the spec says zero=int or zero=float, and only there; it too is used as it is,
/// in fractions if it has them. Palettes learn their codebook from x / scale.
at::Tensor fake_quantize(const at::Tensor& x, const at::Tensor& scale,
                         const std::optional<at::Tensor>& zero_point, const std::string& spec);
at::Tensor fake_quantize(const at::Tensor& x, const at::Tensor& scale,
                         const std::optional<at::Tensor>& zero_point, const QuantSpec& spec);

struct FoundScales {
  at::Tensor scale;                      ///< float32 [blocks], as stored by the spec's scale format
  std::optional<at::Tensor> zero_point;  ///< float32 [blocks], where the spec has zero points
};

/// The scales that fake_quantize(x, spec) uses: where learned scales start. With them both forms give the
/// same bits.
FoundScales find_scales(const at::Tensor& x, const QuantSpec& spec);

}  // namespace crumb

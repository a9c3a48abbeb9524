// Shapes of scales and zero points, by ONNX's granularities.
#pragma once

#include "libtorch/execute/operator.h"

namespace crumb::libtorch {

/// A scale or zero point of QuantizeLinear or DequantizeLinear in a shape that broadcasts to input 0: one
/// number for all, one for each index of `axis`, or one for each block along it. Throws Error where its shape
/// is none of these.
at::Tensor beside_input(const Call& call, std::size_t i);

/// A scale or zero point of a matrix operand (QLinearMatMul, MatMulInteger): one number, one for each row (of
/// the left operand or the result) or column (of the right), or a tensor that broadcasts.
enum class Along : std::uint8_t { kRows, kColumns };
at::Tensor beside_matrix(const Call& call, std::size_t i, std::int64_t rank, Along along);

/// A scale or zero point of a convolution: one number, or one for each of the channels on axis `axis` of
/// `rank`.
at::Tensor beside_channels(const Call& call, std::size_t i, std::int64_t rank, std::int64_t axis);

}  // namespace crumb::libtorch

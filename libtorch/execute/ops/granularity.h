// How scales and zero points lie beside the tensor they belong to: ONNX's granularities.
#pragma once

#include "libtorch/execute/operator.h"

namespace crumb::libtorch {

/// A scale or zero point of QuantizeLinear or DequantizeLinear in a shape that broadcasts to input 0: one number
/// for all, one for each index of `axis`, or one for each block along it. Throws Error where it fits in no way.
at::Tensor beside_input(const Call& call, std::size_t i);

/// A matrix operand's scale or zero point (QLinearMatMul, MatMulInteger): one number, one for each row (of the
/// left operand or the result) or column (of the right), or whatever broadcasts.
enum class Along : std::uint8_t { kRows, kColumns };
at::Tensor beside_matrix(const Call& call, std::size_t i, std::int64_t rank, Along along);

/// A convolution's: one number, or one for each of the channels that are axis `axis` of `rank`.
at::Tensor beside_channels(const Call& call, std::size_t i, std::int64_t rank, std::int64_t axis);

}  // namespace crumb::libtorch

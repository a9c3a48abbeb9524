// Quantizing with scales that are given (learned) instead of searched.
#pragma once

#include <cstdint>
#include <span>

#include "quant/quant_spec.h"
#include "quant/quantized_tensor.h"

namespace crumb {

/// One effective scale per block, in the order of formats/number/encoding.h, and one zero point (or minimum) per block where
/// the spec has them (else none).
struct GivenScales {
  std::span<const float> scales;
  std::span<const float> zeros = {};
};

/// The scale that the spec's scale format stores for this one: the nearest, ties to even.
float stored_scale(const QuantSpec& spec, float scale);

/// The codes of `values` under these scales, by the contract of quant/code_grid.h; a block of scale 0 gets the codes of
/// zero. The spec's search plays no part. Throws Error where the shape does not fit the spec's groups (without pad),
/// where a scale or zero point is none that its format holds, negative or not finite, where there are not as many as
/// blocks, where a value is inf or NaN, and for block formats (their scales are not free) and learned codebooks.
QuantizedTensor quantize_with_scales(const QuantSpec& spec, std::span<const float> values,
                                     std::span<const std::uint64_t> shape, const GivenScales& given,
                                     int threads = 0);

}  // namespace crumb

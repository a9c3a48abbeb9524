// Quantizing with scales that are given (learned) instead of searched.
#pragma once

#include <cstdint>
#include <span>

#include "formats/number/scale_format.h"
#include "quant/quant_spec.h"
#include "quant/quantized_tensor.h"

namespace crumb {

/// One effective scale per block, in the order of formats/number/encoding.h, and one zero point (or minimum) per block where
/// the spec has them (else none).
struct GivenScales {
  std::span<const float> scales;
  std::span<const float> zeros = {};
};

/// Of which part of the scale the spec's values are whole multiples, as a power of 1/2: 0 of integers, 1 of half-integers,
/// e2m1 and e1m2, 3 of e2m3; 0, too, where it would be more. What GGUF's types, whose values are whole, take for their step.
int halvings_of_scale(const QuantSpec& spec);

/// The pattern of a scale >= 0 as the spec's quantizers store it: as formats/number/scale_format.h has it; and in f16 one
/// whose part by halvings_of_scale is a float16 number, too. So scales of int2h below 2^-13 are multiples of
/// 2^-23, and each such tensor can leave as Q4_0: codes -3, -1, 1, 3 and half of the scale.
StoredScale encode_scale(const QuantSpec& spec, float scale);

/// The scale of that pattern.
float stored_scale(const QuantSpec& spec, float scale);

/// The codes of `values` under these scales, by the contract of quant/code_grid.h; a block of scale 0 gets the codes of
/// zero. The spec's search plays no part. Throws Error where the shape does not fit the spec's groups (without pad),
/// where a scale or zero point is none that its format holds, negative or not finite, where there are not as many as
/// blocks, where a value is inf or NaN, and for block formats (their scales are not free) and learned codebooks.
QuantizedTensor quantize_with_scales(const QuantSpec& spec, std::span<const float> values,
                                     std::span<const std::uint64_t> shape, const GivenScales& given,
                                     int threads = 0);

}  // namespace crumb

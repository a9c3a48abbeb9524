// Quantizing with scales that are given (learned) instead of searched.
#pragma once

#include <cstdint>
#include <span>

#include "formats/number/scale_format.h"
#include "quant/quant_spec.h"
#include "quant/quantized_tensor.h"

namespace crumb {

/// One effective scale per block, in the order of formats/number/encoding.h, and one zero point (or minimum)
/// per block where the spec has them (else none).
struct GivenScales {
  std::span<const float> scales;
  std::span<const float> zeros = {};
};

/// Returns k such that all values of the spec are whole multiples of scale / 2^k: 0 for integers, 1 for
/// half-integers, e2m1 and e1m2, 3 for e2m3; 0, too, where k would be more than 3. GGUF's types have whole
/// values and take scale / 2^k for their step.
int halvings_of_scale(const QuantSpec& spec);

/// Returns the pattern of a scale >= 0 as the spec's quantizers store it: as formats/number/scale_format.h
/// has it. A scale in f16 is rounded so that scale / 2^halvings_of_scale() is a float16 number, too. So
/// scales of int2h below 2^-13 are multiples of 2^-23, and each such tensor can be exported as Q4_0: codes
/// -3, -1, 1, 3 and half of the scale.
StoredScale encode_scale(const QuantSpec& spec, float scale);

/// Returns the scale that this pattern stands for.
float stored_scale(const QuantSpec& spec, float scale);

/// Returns the codes of `values` under these scales, by the contract of quant/code_grid.h; a block of scale 0
/// gets the codes of zero. The spec's search plays no part. Throws Error where the shape does not fit the
/// spec's groups (without pad), where its format does not hold a scale or zero point, where one is negative
/// or not finite, where there are not as many as blocks, where a value is inf or NaN, and for block formats
/// (their scales are not free) and learned codebooks.
QuantizedTensor quantize_with_scales(const QuantSpec& spec, std::span<const float> values,
                                     std::span<const std::uint64_t> shape, const GivenScales& given,
                                     int threads = 0);

}  // namespace crumb

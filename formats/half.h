// The two 16-bit float types, as bits: IEEE binary16 (f16: 1 sign, 5 exponent, 10 mantissa, bias 15) and
// bfloat16 (bf16: the upper half of a float32).
//
// Widening is exact for every bit pattern, subnormals and NaN payloads included. Narrowing rounds to nearest,
// ties to even, keeps subnormals, and overflows to infinity (65520 and above for f16); a NaN stays a NaN of the
// same sign with the quiet bit set and the upper payload bits kept, as the F16C instructions do. No function
// here computes with a subnormal float32 that matters, so flush-to-zero modes do not change a result.
//
// Selects instead of branches: a loop over any of these vectorises.
#pragma once

#include <bit>
#include <cstdint>

namespace crumb {

constexpr float f16_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t magnitude = (half & 0x7fffu) << 13;
  const std::uint32_t normal = magnitude + (112u << 23);
  const std::uint32_t special = magnitude + (224u << 23);
  // 2^-14 has the ulp 2^-24 of a subnormal f16: put the mantissa under it, then take it away.
  const float shifted = std::bit_cast<float>(magnitude | (113u << 23)) - std::bit_cast<float>(113u << 23);
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted);
  const std::uint32_t finite = magnitude < (1u << 23) ? subnormal : normal;
  return std::bit_cast<float>(sign | (magnitude >= (31u << 23) ? special : finite));
}

constexpr std::uint16_t float_to_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // 0.5 has the ulp 2^-24 of a subnormal f16: the addition rounds, half to even. Larger inputs are not used.
  const std::uint32_t small = magnitude < 0x38800000u ? magnitude : 0u;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(small) + 0.5f) - 0x3f000000u;
  const std::uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  const std::uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
  const std::uint32_t bounded = magnitude >= 0x47800000u ? 0x7c00u : finite;
  return static_cast<std::uint16_t>(sign | (magnitude > 0x7f800000u ? nan : bounded));
}

constexpr float bf16_to_float(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

constexpr std::uint16_t float_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

}  // namespace crumb

// The two 16-bit float types, as bits: IEEE binary16 (f16: 1 sign, 5 exponent, 10 mantissa, bias 15) and
// bfloat16 (bf16: the upper half of a float32).
//
// Widening is exact for every bit pattern, subnormals and NaN payloads included. Narrowing rounds to nearest,
// ties to even, keeps subnormals, and overflows to infinity (65520 and above for f16); a NaN stays a NaN of
// the same sign with the quiet bit set and the upper payload bits kept, as the F16C instructions do.
//
// Floating point steps here are exact or round once to nearest, never meet a subnormal that matters (so
// flush-to-zero modes change nothing), and are unconditional: a loop over any of these vectorises.
#pragma once

#include <bit>
#include <cstdint>

namespace crumb {

constexpr float f16_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 31u;
  const std::uint32_t hidden = exponent != 0 ? 1024u : 0u;
  const std::uint32_t clamped = exponent != 0 ? exponent : 1u;
  const std::uint32_t special = exponent == 31u ? 0x7f800000u : 0u;
  const auto significand = static_cast<std::int32_t>((half & 0x3ffu) | hidden);
  // 2^(clamped - 25), one unit in the last place.
  const float unit = std::bit_cast<float>((clamped + 102u) << 23);
  const float magnitude = static_cast<float>(significand) * unit;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | special | sign);
}

constexpr std::uint16_t float_to_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // At most 65536, which rounds to infinity, as NaN does here; with an exponent of at least that of 2^-14.
  const std::uint32_t bounded = magnitude < 0x47800000u ? magnitude : 0x47800000u;
  const std::uint32_t exponent = (bounded < 0x38800000u ? 0x38800000u : bounded) >> 23;
  // A float 13 binades up has one unit in its last place where the result has its own: adding it rounds.
  const std::uint32_t magic = (exponent + 13u) << 23;
  const float sum = std::bit_cast<float>(bounded) + std::bit_cast<float>(magic);
  const std::uint32_t rounded = ((exponent - 113u) << 10) + (std::bit_cast<std::uint32_t>(sum) - magic);
  const std::uint32_t payload = magnitude > 0x7f800000u ? 0x200u | ((magnitude >> 13) & 0x3ffu) : 0u;
  return static_cast<std::uint16_t>(sign | rounded | payload);
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

// Blocks of 32 elements with one scale, and for the _1 types one offset.
//
// q(i) is the half-byte of element i among 16 bytes: of byte i the low half where i < 16, of byte i - 16 the
// high half else. h(i) is bit i of a 32-bit number.
//
//   type   bytes  layout                             value of element i
//   Q4_0   18     f16 d, 16 bytes q                  d * (q(i) - 8)
//   Q4_1   20     f16 d, f16 m, 16 bytes q           (d * q(i)) + m
//   Q5_0   22     f16 d, u32 h, 16 bytes q           d * (q(i) + 16 h(i) - 16)
//   Q5_1   24     f16 d, f16 m, u32 h, 16 bytes q    (d * (q(i) + 16 h(i))) + m
//   Q8_0   34     f16 d, 32 signed bytes x           x(i) * d
#include "formats/gguf/blocks.h"

namespace crumb::ggml {
namespace {

constexpr unsigned kSmall = 32;

unsigned five_bits(const std::byte* high, const std::byte* low, unsigned i) {
  return nibble(low, i, kSmall / 2) | ((u32(high) >> i) & 1u) << 4;
}

}  // namespace

void decode_q4_0(const std::byte* block, float* out) {
  const float d = f16(block);
  for (unsigned i = 0; i < kSmall; ++i)
    out[i] = d * static_cast<float>(static_cast<int>(nibble(block + 2, i, kSmall / 2)) - 8);
}

void decode_q4_1(const std::byte* block, float* out) {
  const float d = f16(block);
  const float m = f16(block + 2);
  for (unsigned i = 0; i < kSmall; ++i) {
    const float product = d * static_cast<float>(nibble(block + 4, i, kSmall / 2));
    out[i] = product + m;
  }
}

void decode_q5_0(const std::byte* block, float* out) {
  const float d = f16(block);
  for (unsigned i = 0; i < kSmall; ++i)
    out[i] = d * static_cast<float>(static_cast<int>(five_bits(block + 2, block + 6, i)) - 16);
}

void decode_q5_1(const std::byte* block, float* out) {
  const float d = f16(block);
  const float m = f16(block + 2);
  for (unsigned i = 0; i < kSmall; ++i) {
    const float product = d * static_cast<float>(five_bits(block + 4, block + 8, i));
    out[i] = product + m;
  }
}

void decode_q8_0(const std::byte* block, float* out) {
  const float d = f16(block);
  for (unsigned i = 0; i < kSmall; ++i) out[i] = static_cast<float>(i8(block + 2 + i)) * d;
}

}  // namespace crumb::ggml

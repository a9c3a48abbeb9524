// Blocks of one or two bits an element, or of three values.
//
// Q1_0, 18 bytes, 128 elements: f16 d, 16 bytes. Bit i % 8 of byte i / 8 set: d, else -d.
// Q2_0, 18 bytes, 64 elements: f16 d, 16 bytes. Code = bits 2 (i % 4) and the next of byte i / 4;
//   d * (code - 1): -1, 0, 1 or 2.
// TQ2_0, 66 bytes, 256 elements: 64 bytes, f16 d. Two runs of 128 elements in 32 bytes each; element 32 j + l
//   of a run is bits 2j and 2j + 1 of its byte l; d * (code - 1).
// TQ1_0, 54 bytes, 256 elements: 48 bytes q, 4 bytes h, f16 d. A byte holds five (of h four) digits of base
//   three as a fraction of 256: digit k of byte b is (3 * (b * 3^k mod 256)) / 256, rounded down. Elements
//   are the digits 0 of the first 32 bytes of q, then their digits 1, ... 4; the same of the other 16 bytes;
//   then the digits 0 to 3 of h. d * (digit - 1).
#include "formats/gguf/blocks.h"

namespace crumb::ggml {
namespace {

float centred(float d, unsigned code) { return d * static_cast<float>(static_cast<int>(code) - 1); }

/// The digits 0 to `digits` - 1 of `count` bytes, all of one digit before the next.
float* put_digits(float d, const std::byte* bytes, unsigned count, unsigned digits, float* out) {
  unsigned power = 1;
  for (unsigned digit = 0; digit < digits; ++digit, power *= 3)
    for (unsigned i = 0; i < count; ++i) *out++ = centred(d, ((u8(bytes + i) * power % 256) * 3) >> 8);
  return out;
}

}  // namespace

void decode_q1_0(const std::byte* block, float* out) {
  const float d = f16(block);
  for (unsigned i = 0; i < 128; ++i) out[i] = ((u8(block + 2 + i / 8) >> (i % 8)) & 1u) != 0 ? d : -d;
}

void decode_q2_0(const std::byte* block, float* out) {
  const float d = f16(block);
  for (unsigned i = 0; i < 64; ++i) out[i] = centred(d, (u8(block + 2 + i / 4) >> (2 * (i % 4))) & 3u);
}

void decode_tq1_0(const std::byte* block, float* out) {
  const float d = f16(block + 52);
  out = put_digits(d, block, 32, 5, out);
  out = put_digits(d, block + 32, 16, 5, out);
  put_digits(d, block + 48, 4, 4, out);
}

void decode_tq2_0(const std::byte* block, float* out) {
  const float d = f16(block + 64);
  for (unsigned i = 0; i < kLarge; ++i)
    out[i] = centred(d, (u8(block + std::size_t{32} * (i / 128) + i % 32) >> (2 * (i % 128 / 32))) & 3u);
}

}  // namespace crumb::ggml

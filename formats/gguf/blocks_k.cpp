// The "K" blocks: 256 elements in groups of 16 or 32, each of which has a small integer scale (and minimum)
// of its own under the block's f16 d (and dmin). A group's scale is one float32 product, d * scale, made
// before the elements'.
//
// Q2_K, 84 bytes: 16 bytes s, 64 bytes q, f16 d, f16 dmin. Groups of 16.
//   Elements come in two runs of 128 with 32 bytes of q each; element 32 j + l of a run is bits 2j and 2j + 1
//   of the run's byte l. Group g: scale = low half of s[g], minimum = high half.
//   value = (d * scale) * q - (dmin * minimum)
//
// Q3_K, 110 bytes: 32 bytes h, 64 bytes q, 12 bytes s, f16 d. Groups of 16.
//   q as in Q2_K; the third bit of element 32 j + l (j from 0 to 7 over the whole block) is bit j of h[l],
//   and says "do not subtract 4". Scales have six bits: the low four of group g are the low half of s[g]
//   where g < 8, the high half of s[g - 8] else; the upper two are bits 2 (g / 4) and the next of
//   s[8 + g % 4].
//   value = (d * (scale - 32)) * (q - (bit ? 0 : 4))
//
// Q4_K, 144 bytes: f16 d, f16 dmin, 12 bytes s, 128 bytes q. Groups of 32.
//   Of each run of 64 elements, with 32 bytes of q, the first 32 are the low halves, the next 32 the high
//   halves. Scale and minimum of group g have six bits. g < 4: low six bits of s[g] and of s[4 + g]. g >= 4:
//   low half of s[4 + g] under the upper two bits of s[g - 4], and high half of s[4 + g] under the upper two
//   bits of s[g].
//   value = (d * scale) * q - (dmin * minimum)
//
// Q5_K, 176 bytes: f16 d, f16 dmin, 12 bytes s, 32 bytes h, 128 bytes q. As Q4_K; the fifth bit of element l
//   of group g is bit g of h[l].
//
// Q6_K, 210 bytes: 128 bytes q, 64 bytes h, 16 signed bytes s, f16 d. Groups of 16.
//   Elements come in two runs of 128, with 64 bytes of q and 32 of h each. Element 32 j + l of a run (j from
//   0 to 3): its low four bits are the low (j < 2) or high half of the run's q[32 (j % 2) + l], its upper two
//   are bits 2j and 2j + 1 of the run's h[l].
//   value = (d * scale) * (q - 32)
#include "formats/gguf/blocks.h"

namespace crumb::ggml {
namespace {

/// Bits 2j and 2j + 1 of byte l of a run of 128 elements in 32 bytes.
unsigned two_bits(const std::byte* q, unsigned element) {
  const unsigned run = element / 128, j = element % 128 / 32, l = element % 32;
  return (u8(q + std::size_t{32} * run + l) >> (2 * j)) & 3u;
}

struct ScaleAndMinimum {
  unsigned scale, minimum;
};

/// The six-bit pairs of Q4_K and Q5_K.
ScaleAndMinimum six_bits(const std::byte* s, unsigned group) {
  if (group < 4) return {u8(s + group) & 63u, u8(s + 4 + group) & 63u};
  const unsigned both = u8(s + 4 + group);
  return {(both & 15u) | (u8(s + group - 4) >> 6) << 4, both >> 4 | (u8(s + group) >> 6) << 4};
}

/// The half-byte of an element of Q4_K and Q5_K: 64 elements in 32 bytes.
unsigned four_bits(const std::byte* q, unsigned element) {
  return nibble(q + std::size_t{32} * (element / 64), element % 64, 32);
}

/// Groups of 32 with scales and minima; `code` gives the code of an element.
template <class Code>
void scale_and_shift(const std::byte* block, float* out, Code code) {
  const float d = f16(block);
  const float dmin = f16(block + 2);
  for (unsigned group = 0; group < kLarge / 32; ++group) {
    const ScaleAndMinimum pair = six_bits(block + 4, group);
    const float scale = d * static_cast<float>(pair.scale);
    const float minimum = dmin * static_cast<float>(pair.minimum);
    for (unsigned i = 32 * group; i < 32 * (group + 1); ++i) {
      const float product = scale * static_cast<float>(code(i));
      out[i] = product - minimum;
    }
  }
}

}  // namespace

void decode_q2_k(const std::byte* block, float* out) {
  const float d = f16(block + 80);
  const float dmin = f16(block + 82);
  for (unsigned group = 0; group < kLarge / 16; ++group) {
    const float scale = d * static_cast<float>(u8(block + group) & 15u);
    const float minimum = dmin * static_cast<float>(u8(block + group) >> 4);
    for (unsigned i = 16 * group; i < 16 * (group + 1); ++i) {
      const float product = scale * static_cast<float>(two_bits(block + 16, i));
      out[i] = product - minimum;
    }
  }
}

void decode_q3_k(const std::byte* block, float* out) {
  const std::byte* q = block + 32;
  const std::byte* s = block + 96;
  const float d = f16(block + 108);
  for (unsigned group = 0; group < kLarge / 16; ++group) {
    const unsigned low = nibble(s, group, 8);
    const unsigned high = (u8(s + 8 + group % 4) >> (2 * (group / 4))) & 3u;
    const float scale = d * static_cast<float>(static_cast<int>(low | high << 4) - 32);
    for (unsigned i = 16 * group; i < 16 * (group + 1); ++i) {
      const bool third = ((u8(block + i % 32) >> (i / 32)) & 1u) != 0;
      out[i] = scale * static_cast<float>(static_cast<int>(two_bits(q, i)) - (third ? 0 : 4));
    }
  }
}

void decode_q4_k(const std::byte* block, float* out) {
  scale_and_shift(block, out, [=](unsigned i) { return four_bits(block + 16, i); });
}

void decode_q5_k(const std::byte* block, float* out) {
  scale_and_shift(block, out, [=](unsigned i) {
    return four_bits(block + 48, i) | ((u8(block + 16 + i % 32) >> (i / 32)) & 1u) << 4;
  });
}

void decode_q6_k(const std::byte* block, float* out) {
  const float d = f16(block + 208);
  for (unsigned group = 0; group < kLarge / 16; ++group) {
    const float scale = d * static_cast<float>(i8(block + 192 + group));
    for (unsigned i = 16 * group; i < 16 * (group + 1); ++i) {
      const unsigned run = i / 128, j = i % 128 / 32, l = i % 32;
      const unsigned low = nibble(block + std::size_t{64} * run, i % 128, 64);
      const unsigned high = (u8(block + 128 + std::size_t{32} * run + l) >> (2 * j)) & 3u;
      out[i] = scale * static_cast<float>(static_cast<int>(low | high << 4) - 32);
    }
  }
}

}  // namespace crumb::ggml

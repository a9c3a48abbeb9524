// Blocks of four-bit codes, each of which names a value of a table of 16.
//
// IQ4_NL, 18 bytes, 32 elements: f16 d, 16 bytes of codes (element i in the low half of byte i, element 16 +
//   i in its high half); d * kUneven[code].
// IQ4_XS, 136 bytes, 256 elements in groups of 32: f16 d, u16 h, 4 bytes l, 128 bytes of codes. Group g has
//   16 bytes of codes, laid as in IQ4_NL. Its scale has six bits: the low four are a half of byte g / 2 of l
//   (low where g is even), the upper two bits 2g and 2g + 1 of h. (d * (scale - 32)) * kUneven[code].
// MXFP4, 17 bytes, 32 elements: u8 e, 16 bytes of codes as in IQ4_NL. d = 2^(e - 128), a float32 that is
//   subnormal for e < 2; d * kDoubledE2M1[code].
// NVFP4, 36 bytes, 64 elements in groups of 16: 4 bytes of scales, then 8 bytes of codes a group (element i
//   of the group in the low half of byte i, element 8 + i in its high half). A scale is half of an e4m3
//   number without its sign bit: exponent field E (four bits), mantissa M (three): M * 2^-9 where E = 0,
//   (1 + M / 8) * 2^(E - 7) else, also for E = 15; the byte 0x7f is 0. d * kDoubledE2M1[code]. A scale for
//   the whole tensor is a tensor of its own.
#include <array>
#include <bit>

#include "formats/gguf/blocks.h"

namespace crumb::ggml {
namespace {

constexpr std::array<float, 16> kUneven = {-127, -104, -83, -65, -49, -35, -22, -10,
                                           1,    13,   25,  38,  53,  69,  89,  113};

/// Twice the OCP e2m1 values.
constexpr std::array<float, 16> kDoubledE2M1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void look_up(float d, const std::byte* codes, unsigned count, const std::array<float, 16>& table,
             float* out) {
  for (unsigned i = 0; i < count; ++i) out[i] = d * table[nibble(codes, i, count / 2)];
}

float half_power(unsigned e) { return std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1u) << 23); }

float half_e4m3(unsigned byte) {
  if (byte == 0x7fu) return 0;
  const unsigned exponent = (byte >> 3) & 15u, mantissa = byte & 7u;
  const unsigned significand = exponent != 0 ? mantissa | 8u : mantissa;
  // In units of 2^(exponent - 11): half of 2^(exponent - 7) / 8.
  return static_cast<float>(significand) *
         std::bit_cast<float>(((exponent != 0 ? exponent : 1u) + 127u - 11u) << 23);
}

}  // namespace

void decode_iq4_nl(const std::byte* block, float* out) { look_up(f16(block), block + 2, 32, kUneven, out); }

void decode_iq4_xs(const std::byte* block, float* out) {
  const float d = f16(block);
  const std::uint32_t high = u16(block + 2);
  for (unsigned group = 0; group < 8; ++group) {
    const unsigned low = (u8(block + 4 + group / 2) >> (4 * (group % 2))) & 15u;
    const auto scale = static_cast<int>(low | ((high >> (2 * group)) & 3u) << 4) - 32;
    look_up(d * static_cast<float>(scale), block + 8 + std::size_t{16} * group, 32, kUneven,
            out + 32 * group);
  }
}

void decode_mxfp4(const std::byte* block, float* out) {
  look_up(half_power(u8(block)), block + 1, 32, kDoubledE2M1, out);
}

void decode_nvfp4(const std::byte* block, float* out) {
  for (unsigned group = 0; group < 4; ++group)
    look_up(half_e4m3(u8(block + group)), block + 4 + std::size_t{8} * group, 16, kDoubledE2M1,
            out + 16 * group);
}

void decode_scaled_nvfp4(const std::byte* block, float scale, float* out) {
  for (unsigned group = 0; group < 4; ++group) {
    const float d = 2 * half_e4m3(u8(block + group)) * scale;
    for (unsigned i = 0; i < 16; ++i)
      out[16 * group + i] = d * (0.5F * kDoubledE2M1[nibble(block + 4 + std::size_t{8} * group, i, 8)]);
  }
}

}  // namespace crumb::ggml

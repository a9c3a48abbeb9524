// Decoders of ggml's blocks (GgmlDecode), and what they share. The layouts are described next to the
// functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "formats/half.h"

namespace crumb::ggml {

/// Elements of the large blocks.
inline constexpr unsigned kLarge = 256;

inline unsigned u8(const std::byte* at) { return std::to_integer<unsigned>(*at); }
inline int i8(const std::byte* at) { return static_cast<std::int8_t>(std::to_integer<unsigned>(*at)); }

inline std::uint32_t u16(const std::byte* at) { return u8(at) | u8(at + 1) << 8; }
inline std::uint32_t u32(const std::byte* at) { return u16(at) | u16(at + 2) << 16; }

inline float f16(const std::byte* at) { return f16_to_float(static_cast<std::uint16_t>(u16(at))); }

/// The half-byte that holds element i of a run of 2n in n bytes: element i in the low half of byte i, element
/// n + i in its high half.
inline unsigned nibble(const std::byte* bytes, unsigned i, unsigned n) {
  return i < n ? u8(bytes + i) & 15u : u8(bytes + i - n) >> 4;
}

// blocks_legacy.cpp: 32 elements, one scale.
void decode_q4_0(const std::byte* block, float* out);
void decode_q4_1(const std::byte* block, float* out);
void decode_q5_0(const std::byte* block, float* out);
void decode_q5_1(const std::byte* block, float* out);
void decode_q8_0(const std::byte* block, float* out);

// blocks_k.cpp: 256 elements, small integer scales under one f16 scale.
void decode_q2_k(const std::byte* block, float* out);
void decode_q3_k(const std::byte* block, float* out);
void decode_q4_k(const std::byte* block, float* out);
void decode_q5_k(const std::byte* block, float* out);
void decode_q6_k(const std::byte* block, float* out);

// blocks_few_bits.cpp: one or two bits, or three values.
void decode_q1_0(const std::byte* block, float* out);
void decode_q2_0(const std::byte* block, float* out);
void decode_tq1_0(const std::byte* block, float* out);
void decode_tq2_0(const std::byte* block, float* out);

// blocks_tables.cpp: four-bit codes that name a value of a table.
void decode_iq4_nl(const std::byte* block, float* out);
void decode_iq4_xs(const std::byte* block, float* out);
void decode_mxfp4(const std::byte* block, float* out);
void decode_nvfp4(const std::byte* block, float* out);
void decode_scaled_nvfp4(const std::byte* block, float scale, float* out);

}  // namespace crumb::ggml

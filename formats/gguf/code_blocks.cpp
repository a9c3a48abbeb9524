#include "formats/gguf/code_blocks.h"

#include <algorithm>
#include <array>

#include "formats/gguf/blocks.h"

namespace crumb {
namespace {

using ggml::u16;
using ggml::u8;

std::byte byte_of(unsigned value) { return static_cast<std::byte>(value & 255u); }

void put_u16(std::uint16_t value, std::byte* to) {
  to[0] = byte_of(value);
  to[1] = byte_of(unsigned{value} >> 8);
}

std::uint16_t get_u16(const std::byte* from) { return static_cast<std::uint16_t>(u16(from)); }

/// Four-bit codes as ggml::nibble finds them.
void split_nibbles(const std::byte* from, unsigned count, std::uint8_t* codes) {
  for (unsigned i = 0; i < count; ++i) codes[i] = static_cast<std::uint8_t>(ggml::nibble(from, i, count / 2));
}

void join_nibbles(const std::uint8_t* codes, unsigned count, std::byte* to) {
  for (unsigned i = 0; i < count / 2; ++i)
    to[i] = byte_of((codes[i] & 15u) | unsigned{codes[count / 2 + i]} << 4);
}

/// One f16, perhaps another, perhaps 32 high bits, then 32 half-bytes.
template <bool kMinimum, bool kHighBits>
struct Legacy {
  static constexpr unsigned kHigh = kMinimum ? 4 : 2, kLow = kHigh + (kHighBits ? 4 : 0);

  static void split(const std::byte* block, std::uint8_t* codes, std::uint16_t* scales) {
    scales[0] = get_u16(block);
    if (kMinimum) scales[1] = get_u16(block + 2);
    split_nibbles(block + kLow, 32, codes);
    if (!kHighBits) return;
    const std::uint32_t high = ggml::u32(block + kHigh);
    for (unsigned i = 0; i < 32; ++i)
      codes[i] = static_cast<std::uint8_t>(codes[i] | ((high >> i) & 1u) << 4);
  }

  static void join(const std::uint8_t* codes, const std::uint16_t* scales, std::byte* block) {
    put_u16(scales[0], block);
    if (kMinimum) put_u16(scales[1], block + 2);
    join_nibbles(codes, 32, block + kLow);
    if (!kHighBits) return;
    for (unsigned byte = 0; byte < 4; ++byte) {
      unsigned bits = 0;
      for (unsigned i = 0; i < 8; ++i) bits |= ((unsigned{codes[8 * byte + i]} >> 4) & 1u) << i;
      block[kHigh + byte] = byte_of(bits);
    }
  }
};

void split_q8_0(const std::byte* block, std::uint8_t* codes, std::uint16_t* scales) {
  scales[0] = get_u16(block);
  for (unsigned i = 0; i < 32; ++i) codes[i] = static_cast<std::uint8_t>(u8(block + 2 + i));
}

void join_q8_0(const std::uint8_t* codes, const std::uint16_t* scales, std::byte* block) {
  put_u16(scales[0], block);
  for (unsigned i = 0; i < 32; ++i) block[2 + i] = byte_of(codes[i]);
}

/// One f16, then codes of `kBits` bits, the first in the lowest bits of a byte.
template <unsigned kBits, unsigned kCount>
struct InOrder {
  static constexpr unsigned kOfByte = 8 / kBits, kMask = (1u << kBits) - 1;

  static void split(const std::byte* block, std::uint8_t* codes, std::uint16_t* scales) {
    scales[0] = get_u16(block);
    for (unsigned i = 0; i < kCount; ++i)
      codes[i] = static_cast<std::uint8_t>((u8(block + 2 + i / kOfByte) >> (kBits * (i % kOfByte))) & kMask);
  }

  static void join(const std::uint8_t* codes, const std::uint16_t* scales, std::byte* block) {
    put_u16(scales[0], block);
    for (unsigned byte = 0; byte < kCount / kOfByte; ++byte) {
      unsigned bits = 0;
      for (unsigned i = 0; i < kOfByte; ++i) bits |= (codes[byte * kOfByte + i] & kMask) << (kBits * i);
      block[2 + byte] = byte_of(bits);
    }
  }
};

void split_tq2_0(const std::byte* block, std::uint8_t* codes, std::uint16_t* scales) {
  scales[0] = get_u16(block + 64);
  for (unsigned i = 0; i < 256; ++i)
    codes[i] = static_cast<std::uint8_t>(
        (u8(block + std::size_t{32} * (i / 128) + i % 32) >> (2 * (i % 128 / 32))) & 3u);
}

void join_tq2_0(const std::uint8_t* codes, const std::uint16_t* scales, std::byte* block) {
  for (unsigned byte = 0; byte < 64; ++byte) {
    const std::uint8_t* const first = codes + 128 * (byte / 32) + byte % 32;
    block[byte] =
        byte_of((first[0] & 3u) | (first[32] & 3u) << 2 | (first[64] & 3u) << 4 | (first[96] & 3u) << 6);
  }
  put_u16(scales[0], block + 64);
}

void split_mxfp4(const std::byte* block, std::uint8_t* codes, std::uint16_t* scales) {
  scales[0] = static_cast<std::uint16_t>(u8(block));
  split_nibbles(block + 1, 32, codes);
}

void join_mxfp4(const std::uint8_t* codes, const std::uint16_t* scales, std::byte* block) {
  block[0] = byte_of(scales[0]);
  join_nibbles(codes, 32, block + 1);
}

void split_nvfp4(const std::byte* block, std::uint8_t* codes, std::uint16_t* scales) {
  for (unsigned group = 0; group < 4; ++group) {
    scales[group] = static_cast<std::uint16_t>(u8(block + group));
    split_nibbles(block + 4 + std::size_t{8} * group, 16, codes + 16 * group);
  }
}

void join_nvfp4(const std::uint8_t* codes, const std::uint16_t* scales, std::byte* block) {
  for (unsigned group = 0; group < 4; ++group) {
    block[group] = byte_of(scales[group]);
    join_nibbles(codes + 16 * group, 16, block + 4 + std::size_t{8} * group);
  }
}

using Kind = GgmlCodes::Kind;

/// One f16 scale a block, or that and a minimum.
template <class Layout>
constexpr GgmlCodes laid(std::uint32_t type, unsigned elements, unsigned bits, Kind kind, int step = 1,
                         int zero = 0) {
  return {type, elements, bits, elements, 2, kind, step, zero, false, Layout::split, Layout::join};
}

constexpr std::array<GgmlCodes, 10> kCodeTypes = {{
    laid<InOrder<1, 128>>(41, 128, 1, Kind::kLevels, 2, 1),
    {35, 256, 2, 256, 2, Kind::kLevels, 1, 1, false, split_tq2_0, join_tq2_0},
    laid<InOrder<2, 64>>(42, 64, 2, Kind::kLevels, 1, 1),
    {39, 32, 4, 32, 1, Kind::kE2M1, 1, 0, false, split_mxfp4, join_mxfp4},
    {40, 64, 4, 16, 1, Kind::kE2M1, 1, 0, false, split_nvfp4, join_nvfp4},
    laid<Legacy<false, false>>(2, 32, 4, Kind::kLevels, 1, 8),
    laid<Legacy<true, false>>(3, 32, 4, Kind::kMinimum),
    laid<Legacy<false, true>>(6, 32, 5, Kind::kLevels, 1, 16),
    laid<Legacy<true, true>>(7, 32, 5, Kind::kMinimum),
    {8, 32, 8, 32, 2, Kind::kLevels, 1, 0, true, split_q8_0, join_q8_0},
}};

}  // namespace

std::span<const GgmlCodes> ggml_code_types() { return kCodeTypes; }

const GgmlCodes* find_ggml_codes(std::uint32_t type) {
  const auto found = std::ranges::find(kCodeTypes, type, &GgmlCodes::type);
  return found == kCodeTypes.end() ? nullptr : &*found;
}

}  // namespace crumb

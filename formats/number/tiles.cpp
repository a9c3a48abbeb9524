#include "formats/number/tiles.h"

#include <bit>
#include <cstring>

namespace crumb {
namespace {

constexpr uint64_t kTogether = 4;  // codes of a row that lie side by side: a word of 32 bits, a byte each

/// The low `width` bits of every byte.
constexpr uint32_t low_bits(int width) { return 0x01010101U * ((1U << width) - 1); }

/// Calls visit(width, shift, word, plane, first column): `shift`, the field's lowest bit in a code; the words
/// of the row in the tile are at 4-byte words word, word + 16, ...; in a word, the field's bits begin at
/// width * plane.
template <class Visit>
void for_planes(int bits, const Visit& visit) {
  uint64_t line = 0;
  int shift = 0;
  for (const int width : tile_fields(bits)) {
    if (width == 0) break;
    const uint64_t columns = kTileCols / static_cast<uint64_t>(width);  // of a line
    for (int l = 0; l < width; ++l, ++line) {
      for (int plane = 0; plane < 8 / width; ++plane) {
        visit(width, shift, line, plane,
              static_cast<uint64_t>(l) * columns + kTogether * static_cast<uint64_t>(plane));
      }
    }
    shift += width;
  }
}

}  // namespace

void pack_tile(std::span<const uint8_t, kTileRows * kTileCols> codes, int bits, uint8_t* tile) {
  static_assert(std::endian::native == std::endian::little);
  std::memset(tile, 0, tile_bytes(bits));
  for (uint64_t row = 0; row < kTileRows; ++row) {
    for_planes(bits, [&](int width, int shift, uint64_t line, int plane, uint64_t col) {
      uint32_t four, word;
      uint8_t* const place = tile + line * kTileLine + kTogether * row;
      std::memcpy(&four, codes.data() + row * kTileCols + col, sizeof four);
      std::memcpy(&word, place, sizeof word);
      word |= ((four >> shift) & low_bits(width)) << (width * plane);
      std::memcpy(place, &word, sizeof word);
    });
  }
}

void unpack_tile(const uint8_t* tile, int bits, uint8_t* vectors) {
  std::memset(vectors, 0, kTileRows * kTileCols);
  for_planes(bits, [&](int width, int shift, uint64_t line, int plane, uint64_t col) {
    const uint64_t low = low_bits(width) * 0x100000001ULL;
    const uint8_t* const from = tile + line * kTileLine;
    uint8_t* const to = vectors + col / kTogether * kTileLine;
    for (uint64_t i = 0; i < kTileLine; i += sizeof(uint64_t)) {
      uint64_t word, made;
      std::memcpy(&word, from + i, sizeof word);
      std::memcpy(&made, to + i, sizeof made);
      made |= ((word >> (width * plane)) & low) << shift;
      std::memcpy(to + i, &made, sizeof made);
    }
  });
}

void unpack_tile_row(const uint8_t* tile, int bits, uint64_t row, std::span<uint8_t, kTileCols> codes) {
  std::array<uint32_t, kTileCols / kTogether> fours{};
  for_planes(bits, [&](int width, int shift, uint64_t line, int plane, uint64_t col) {
    uint32_t word;
    std::memcpy(&word, tile + line * kTileLine + kTogether * row, sizeof word);
    fours[col / kTogether] |= ((word >> (width * plane)) & low_bits(width)) << shift;
  });
  std::memcpy(codes.data(), fours.data(), sizeof fours);
}

uint8_t tile_code_ref(const uint8_t* tile, int bits, uint64_t row, uint64_t col) {
  unsigned code = 0;
  int shift = 0;
  for (const int width : tile_fields(bits)) {
    if (width == 0) break;
    const auto w = static_cast<uint64_t>(width);
    const uint64_t line = col / (kTileCols / w), plane = col % (kTileCols / w) / 4, c = col % 4;
    const unsigned byte = tile[line * kTileLine + 4 * row + c];
    code |= ((byte >> (w * plane)) & ((1U << width) - 1)) << shift;
    tile += w * kTileLine;
    shift += width;
  }
  return static_cast<uint8_t>(code);
}

}  // namespace crumb

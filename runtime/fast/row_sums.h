// Sums of bytes of activations times levels of weights (level_codes.h), of weights in rows: codes are packed
// one behind the other, from the least significant bit of a byte on. This is for few rows of x, because it
// needs no transposed weights.
//
// Codes of 1, 2, 4 and 8 bits are not unpacked first: of 64 bytes, plane p is what the codes in bits [p *
// bits, (p + 1) * bits) of each byte make; activations are brought into the same order once. Codes of 3, 5, 6
// and 7 bits become bytes in registers, 64 codes at a time. An instruction adds up four bytes, so a sum, here
// a lane, has 32 / bits neighbouring terms, or four.
//
// Lanes of eight rows, a few chunks of them, are then brought side by side, added up to blocks, and weighted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/fast/byte_rows.h"
#include "runtime/fast/level_codes.h"
#include "runtime/fast/tile_sums.h"

namespace crumb::runtime {

inline constexpr std::size_t kChunkBytes = 64, kChunkLanes = 16;

/// Rows of activations in the order of planes: of each chunk, its planes, 64 terms each.
struct PlaneRows {
  int bits = 8;  ///< of a packed code: 1 to 8
  std::size_t rows = 0, terms = 0;
  std::size_t stride = 0;  ///< from row to row
  std::vector<std::int8_t> q;

  static PlaneRows of(const ByteRows& x, int bits);
  std::size_t planes() const { return is_in_planes() ? 8 / static_cast<std::size_t>(bits) : 1; }
  std::size_t terms_of_lane() const { return 4 * planes(); }
  std::size_t chunks() const { return stride / (planes() * kChunkBytes); }
  /// Bytes of codes of a chunk.
  std::size_t chunk_bytes() const {
    return is_in_planes() ? kChunkBytes : 8 * static_cast<std::size_t>(bits);
  }
  /// Whether a byte has whole codes.
  bool is_in_planes() const { return 8 % bits == 0; }
};

inline constexpr std::size_t kRowsTogether = 8;

/// kRowsTogether rows of weights.
struct PackedRows {
  const std::uint8_t* codes = nullptr;
  std::size_t bytes = 0;   ///< of a row; no others are read
  std::size_t stride = 0;  ///< bytes from row to row
  const LevelCodes* levels = nullptr;
  /// A block has whole lanes, but the last one may be shorter. The scales and origins of a block are 16
  /// apart.
  TileBlocks blocks;
  const std::int32_t* sums = nullptr;  ///< [rows of x, sums_stride]: of q, of each block
  std::size_t sums_stride = 0;
};

/// Of bytes that codes of 3, 5 and 6 bits become: two of them times 127 each fit 16 bits.
inline constexpr std::int32_t kMostUnpacked = 32767 / (2 * 127);

/// Rows of activations that weighted_rows() takes together.
inline constexpr std::size_t kPlaneRows = 4;

/// Whether weighted_rows() takes such codes.
inline bool takes_levels(const LevelCodes& levels) {
  if (levels.bits >= 7 || levels.bits == 0) return levels.flip.has_value();
  return 8 % levels.bits == 0 || levels.widest <= kMostUnpacked;
}

/// made[8 r + i] = the sum over blocks, in their order, of float(the sum of q * level over the block) *
/// scale, rounded to float32 at each step, of row r of x and row i of the weights. Preconditions: 1 <= x.rows
/// <= kPlaneRows; takes_levels(*w.levels).
void weighted_rows(const PlaneRows& x, const PackedRows& w, float* made);

/// By the definition; kept for ever.
void weighted_rows_ref(const PlaneRows& x, const PackedRows& w, float* made);
/// Precondition: may_use(Isa::kAvx2).
void weighted_rows_avx2(const PlaneRows& x, const PackedRows& w, float* made);
/// Precondition: may_use(Isa::kVnni).
void weighted_rows_vnni(const PlaneRows& x, const PackedRows& w, float* made);

/// How lanes make blocks.
struct LaneBlocks {
  std::size_t chunks = 1;  ///< that are added up to 16 lanes: more than one where blocks are so many chunks
  std::size_t each = 0;    ///< lanes of a block then
  std::size_t blocks = 0;

  static LaneBlocks of(const PlaneRows& x, std::size_t block);
};

}  // namespace crumb::runtime

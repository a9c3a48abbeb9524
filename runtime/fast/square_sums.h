// Sums of bytes of activations times levels of weights where there are many rows of activations: up to 32 of
// them meet as many rows of weights, in registers that hold squares of 16 x 16 sums (tile_registers.h).
// Integers, and the order of floats, are those of tile_sums.h.
//
// Both operands have signs, so for most formats the byte of a code is its level (signed_bytes()), and a
// block's sum needs nothing added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/fast/tile_sums.h"

namespace crumb::runtime {

inline constexpr std::size_t kSide = kTileRows, kSquare = kSide * kSide;
inline constexpr std::size_t kMostChunk = 64;  ///< terms that one product of registers takes

/// Rows of activations from which on add_squares() is faster than add_panel().
inline constexpr std::size_t kManyByteRows = 12;

/// The same codes with bytes that have signs: above[code], read as int8, is the level less `least`, which is
/// 0 where all levels fit eight bits.
LevelCodes signed_bytes(const LevelCodes& levels);

/// Rows of activations, sixteen at a time, by chunks of terms that one product of registers takes. No chunk
/// has terms of two blocks: behind a block's last term, and behind the last row, there are zeros.
class ChunkedRows {
 public:
  /// Of all rows of x. Precondition: blocks are multiples of four terms, or one block is all terms.
  ChunkedRows(const ByteTerms& x, std::size_t block, int threads);

  std::size_t terms() const { return terms_; }
  std::size_t block() const { return block_; }
  std::size_t chunk() const { return chunk_; }  ///< terms: a multiple of 4, at most kMostChunk
  std::size_t sixteens() const { return sixteens_; }
  /// [16, chunk()]: the chunk of block b that begins with term k of the block.
  const std::int8_t* at(std::size_t sixteen, std::size_t b, std::size_t k) const {
    return reinterpret_cast<const std::int8_t*>(lines_.data()) +
           (sixteen * chunks_ + b * chunks_of_block_ + k / chunk_) * kSide * chunk_;
  }
  /// [16]: the sums of block b.
  const std::int32_t* sums(std::size_t sixteen, std::size_t b) const {
    return sums_.data() + (sixteen * blocks_ + b) * kSide;
  }

 private:
  void fill(const ByteTerms& x, std::size_t sixteen);

  std::size_t terms_ = 0, block_ = 0, blocks_ = 0;
  std::size_t chunk_ = 0, chunks_of_block_ = 0, chunks_ = 0;  ///< chunks_: of a row
  std::size_t sixteens_ = 0;
  struct alignas(kTileLine) Line {
    std::int8_t bytes[kTileLine];
  };
  std::vector<Line> lines_;
  std::vector<std::int32_t> sums_;
};

/// Terms [begin, end) of one or two sixteens of rows of weights: whole blocks, or a part of one block, which
/// is whole chunks or ends where the block does.
struct PanelPart {
  std::size_t begin = 0, end = 0;
  std::size_t panels = 2;
  /// Bytes of signed_bytes(), from term `begin` on; bytes of up to a chunk behind `end` are read. `blocks`
  /// begin with the block of `begin`.
  LevelPanel panel[2];
};

/// Adds what the blocks make that end in the part to made[t][j][row of x][row of weights], of sixteen first +
/// t of x and panel j: [count, 2, 16, 16]. `carried` is memory of that shape for the sums of a block from one
/// of its parts to the next. Both are aligned to 64 bytes.
using AddSquares = void (*)(const ChunkedRows& x, std::size_t first, std::size_t count, const PanelPart& w,
                            std::int32_t* carried, float* made);

/// By AMX; null where this processor has none or the system refuses it (may_use()).
AddSquares squares_by_amx();

}  // namespace crumb::runtime

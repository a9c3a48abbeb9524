// Sums of bytes of activations times levels of weights (level_codes.h), of weights in rows: codes are packed
// one behind the other, from the least significant bit of a byte on. This is for few rows of x, because it
// needs no transposed weights.
//
// Packed bytes are not unpacked first: of 64 bytes, plane p is what the codes in bits [p * bits, (p + 1) *
// bits) of each byte make; activations are brought into the same order once. An instruction adds up four
// bytes, so a sum, here a lane, has 32 / bits neighbouring terms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/fast/byte_rows.h"
#include "runtime/fast/level_codes.h"

namespace crumb::runtime {

inline constexpr std::size_t kChunkBytes = 64, kChunkLanes = 16;

/// Rows of activations in the order of planes: of each chunk of 64 packed bytes, its planes, 64 terms each.
struct PlaneRows {
  int bits = 8;  ///< of a packed code: 1, 2, 4 or 8
  std::size_t rows = 0;
  std::size_t stride = 0;  ///< from row to row
  std::vector<std::int8_t> q;

  static PlaneRows of(const ByteRows& x, int bits);
  std::size_t planes() const { return 8 / static_cast<std::size_t>(bits); }
  std::size_t terms_of_lane() const { return 4 * planes(); }
  std::size_t chunks() const { return stride / (planes() * kChunkBytes); }
};

/// Rows of weights.
struct PackedRows {
  const std::uint8_t* codes = nullptr;
  std::size_t bytes = 0;   ///< of a row; no others are read
  std::size_t stride = 0;  ///< bytes from row to row
  std::size_t rows = 0;
  const LevelCodes* levels = nullptr;  ///< null where the codes are bytes `above` already
  std::int32_t widest = 0;             ///< no byte `above` is greater
};

/// Where sums of lanes go: of row r of x and row n of the weights, lane i to at[r * x_stride + n * row_stride
/// + i].
struct Lanes {
  std::int32_t* at = nullptr;
  std::size_t x_stride = 0, row_stride = 0;
};

/// Rows of activations that lane_sums() takes together.
inline constexpr std::size_t kPlaneRows = 4;

/// The sums of q * above over the terms of each lane, for 16 lanes of each chunk. Rows of weights are done in
/// their order, so that where row_stride is less than the lanes of a row, the next row's stay. Preconditions:
/// x.rows <= kPlaneRows; codes of eight bits are bytes `above` or have levels->flip.
void lane_sums(const PlaneRows& x, const PackedRows& w, const Lanes& lanes);

/// sums[b] = the sum of lanes [b * each, (b + 1) * each), for b < count / each. It overwrites lanes.
void add_lanes(std::int32_t* lanes, std::size_t count, std::size_t each, std::int32_t* sums);

/// For each row [0, rows) of sums and scales [rows, count]: the sum of float(sums[b] + starts[b]) * scales[b]
/// in the order of b, rounded to float32 at each step.
void weighted_sums(const std::int32_t* sums, const std::int32_t* starts, const float* scales,
                   std::size_t rows, std::size_t count, float* made);

/// By the definition; kept for ever. add_lanes_ref() may write sums to where the lanes begin.
void lane_sums_ref(const PlaneRows& x, const PackedRows& w, const Lanes& lanes);
void add_lanes_ref(const std::int32_t* lanes, std::size_t count, std::size_t each, std::int32_t* sums);
void weighted_sums_ref(const std::int32_t* sums, const std::int32_t* starts, const float* scales,
                       std::size_t rows, std::size_t count, float* made);
/// Precondition: may_use(Isa::kAvx2).
void lane_sums_avx2(const PlaneRows& x, const PackedRows& w, const Lanes& lanes);
void add_lanes_avx2(std::int32_t* lanes, std::size_t count, std::size_t each, std::int32_t* sums);
void weighted_sums_avx2(const std::int32_t* sums, const std::int32_t* starts, const float* scales,
                        std::size_t rows, std::size_t count, float* made);
/// Precondition: may_use(Isa::kVnni).
void lane_sums_vnni(const PlaneRows& x, const PackedRows& w, const Lanes& lanes);

}  // namespace crumb::runtime

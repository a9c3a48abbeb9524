#include "runtime/fast/fast_matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/processor.h"
#include "base/threads/parallel.h"
#include "formats/number/tiles.h"

namespace crumb::runtime {
namespace {

using integer::kGroup;
using integer::kLanes;
using integer::kVectorBytes;
static_assert(kLanes == kTileRows && kTileCols % kGroup == 0);

constexpr int kMostCode = 127;  // of x, by magnitude
constexpr int kOffset = 128;    // what makes it a byte without a sign
constexpr int kMostLevel = 127, kLeastLevel = -128;
constexpr std::uint64_t kMostTerms = 65536;  // of a block: their sums fit 32 bits
constexpr float kLeast = 0x1p-100F;
constexpr std::size_t kRowsAtATime = 128, kTilesAtATime = 4;  // what the kernels take together
constexpr std::size_t kFewRows = 4;   // rows of x for which transposing the weights does not pay
constexpr std::size_t kTogether = 4;  // rows of weights whose sums are weighted side by side

/// The integers behind the values of codes, and their unit; false where they are none of seven bits.
bool find_levels(const CodeGrid& grid, int bits, LevelTable& levels, float& unit) {
  const std::size_t count = std::size_t{1} << bits;
  for (unit = 1; unit >= 0x1p-8F; unit /= 2) {
    bool whole = true;
    for (std::size_t code = 0; code < count; ++code) {
      const float value = grid.values[code];
      const float level = std::isfinite(value) ? value / unit : 0;
      if (level > kMostLevel || level < kLeastLevel) return false;
      whole = whole && level == std::trunc(level);
      levels[code] = static_cast<std::int8_t>(level);
    }
    if (whole) return true;
  }
  return false;
}

integer::Way way_for(int most_level) {
  using Kind = integer::Way::Kind;
  if (may_use_vnni()) return {.kind = Kind::kQuads};
  if (!may_use(Isa::kAvx2)) return {.kind = Kind::kReference};
  const int pair = 2 * (kMostCode + kOffset) * most_level;
  constexpr int kMost16 = 32767;
  if (pair > kMost16) return {.kind = Kind::kWords};
  return {.kind = Kind::kPairs, .span = static_cast<std::size_t>(kMost16 / std::max(pair, 1))};
}

}  // namespace

/// Rows of x as bytes: row 0 is all ones, so that its products are the sums of the weights; the others are q
/// + 128. Bytes behind the terms are zeros.
struct FastMatrix::ByteRows {
  std::size_t stride = 0;
  std::vector<std::uint8_t> bytes;
  std::vector<float> scales;  ///< of row i + 1
};

/// False where a row is not for bytes.
bool FastMatrix::to_bytes(const exact::Products& p, int threads, ByteRows& made) const {
  made.stride = integer::groups_of(p.terms) * kGroup;
  made.bytes.assign((p.rows + 1) * made.stride, 0);
  made.scales.assign(p.rows, 0);
  std::fill_n(made.bytes.begin(), p.terms, std::uint8_t{1});
  std::vector<char> refused(p.rows, 0);
  parallel_for(p.rows, 1 + 65536 / std::max<std::size_t>(p.terms, 1), threads,
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t r = begin; r < end; ++r) {
                   const float* const x = p.x + r * p.x_stride;
                   std::uint32_t most = 0;  // magnitudes order as their bits do, NaN above all
                   for (std::size_t k = 0; k < p.terms; ++k)
                     most = std::max(most, std::bit_cast<std::uint32_t>(x[k]) & 0x7FFFFFFFU);
                   const float absmax = std::bit_cast<float>(most);
                   refused[r] = most >= 0x7F800000U || (most != 0 && absmax < kLeast);
                   if (refused[r]) continue;
                   const float inverse = most == 0 ? 0.0F : static_cast<float>(kMostCode) / absmax;
                   made.scales[r] = absmax / static_cast<float>(kMostCode);
                   std::uint8_t* const to = made.bytes.data() + (r + 1) * made.stride;
                   for (std::size_t k = 0; k < p.terms; ++k) {
                     // Adding and taking away 1.5 * 2^23 rounds to the nearest integer, ties to even.
                     const float rounded = (x[k] * inverse + 0x1.8p23F) - 0x1.8p23F;
                     to[k] = static_cast<std::uint8_t>(static_cast<int>(rounded) + kOffset);
                   }
                 }
               });
  return std::ranges::count(refused, 0) == std::ssize(refused);
}

/// A few times sixteen rows of weights.
struct FastMatrix::Panel {
  std::vector<std::byte> vectors;  ///< of each tile, groups of terms, 64 bytes each
  std::vector<float> scales;       ///< of each tile, blocks of a row, 16 each
  std::vector<std::int32_t> sums;
  std::vector<float> made;
  std::vector<std::uint8_t> codes;
};

FastMatrix::FastMatrix(std::shared_ptr<const QuantizedTensor> tensor)
    : tensor_(std::move(tensor)), decoder_(tensor_->unchecked_view()) {}

std::shared_ptr<const FastMatrix> FastMatrix::of(const std::shared_ptr<const QuantizedTensor>& tensor) {
  const Encoding& e = tensor->encoding;
  const MatrixShape& matrix = tensor->layout.matrix;
  if (!e.has_levels() || e.zero == ZeroPoint::kFloat || matrix.size() == 0) return nullptr;
  if (e.block_cols < matrix.cols && e.block_cols % kGroup != 0) return nullptr;
  if (std::min(e.block_cols, matrix.cols) > kMostTerms) return nullptr;
  std::shared_ptr<FastMatrix> made(new FastMatrix(tensor));
  if (!find_levels(made->decoder_.grid(), e.number->bits, made->levels_, made->unit_)) return nullptr;
  made->has_zeros_ = e.zero == ZeroPoint::kInteger;
  const auto [least, most] = std::ranges::minmax(made->levels_);
  const int widest = made->has_zeros_ ? most - least : std::max<int>(most, -least);
  if (made->has_zeros_ && widest > kMostLevel) return nullptr;
  made->way_ = way_for(widest);
  return made;
}

/// Writes the codes of tile `tile` as tile `place` of the panel.
void FastMatrix::decode(std::size_t tile, std::size_t place, Panel& panel) const {
  const Encoding& e = tensor_->encoding;
  const int bits = e.number->bits;
  const std::size_t rows = std::min<std::size_t>(kLanes, decoder_.rows() - tile * kLanes),
                    cols = decoder_.cols();
  const std::size_t across = (cols + kTileCols - 1) / kTileCols;
  const std::span<std::byte> vectors =
      std::span(panel.vectors).subspan(place * bytes_of_tile(), bytes_of_tile());
  if (e.codes == CodeLayout::kTiles) {
    const auto* const from = reinterpret_cast<const std::uint8_t*>(tensor_->unchecked_view().codes.data()) +
                             tile * tensor_->layout.row_bytes;
    auto* const to = reinterpret_cast<std::uint8_t*>(vectors.data());
    for (std::size_t c = 0; c < across; ++c)
      unpack_tile(from + c * tile_bytes(bits), bits, to + c * kTileRows * kTileCols);
  } else {
    std::ranges::fill(vectors, std::byte{0});
    panel.codes.resize(across * kTileCols);
    for (std::size_t r = 0; r < rows; ++r) {
      decoder_.codes(tile * kLanes + r, 0, std::span(panel.codes).first(cols));
      for (std::size_t k = 0; k < cols; k += kGroup)
        std::memcpy(&vectors[k / kGroup * kVectorBytes + r * kGroup], &panel.codes[k], kGroup);
    }
  }
  const bool as_codes = e.number->grid == Grid::kInteger && unit_ == 1;
  for (std::size_t at = 0; at < vectors.size(); at += kVectorBytes) {
    const auto* const codes = reinterpret_cast<const std::uint8_t*>(&vectors[at]);
    auto* const levels = reinterpret_cast<std::int8_t*>(&vectors[at]);
    if (!as_codes) {
      levels_of(levels_, bits, codes, kVectorBytes, levels);
    } else if (e.number->is_signed && bits < 8) {
      extend_sign(bits, codes, kVectorBytes, levels);
    }
  }
  const std::uint64_t blocks = tensor_->layout.blocks_per_row;
  const std::span<float> scales = std::span(panel.scales).subspan(place * blocks * kLanes, blocks * kLanes);
  std::ranges::fill(scales, 0.0F);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::uint64_t b = 0; b < blocks; ++b) {
      const std::uint64_t block = (tile * kLanes + r) / e.block_rows * blocks + b;
      scales[b * kLanes + r] = decoder_.scale(block) * unit_;
      if (!has_zeros_) continue;
      const auto zero = static_cast<std::int8_t>(decoder_.zero_point(block) / unit_);
      const std::size_t end = std::min<std::uint64_t>((b + 1) * e.block_cols, cols);
      for (std::size_t k = b * e.block_cols; k < end; ++k) {
        std::byte& level = vectors[k / kGroup * kVectorBytes + r * kGroup + k % kGroup];
        level = static_cast<std::byte>(static_cast<std::int8_t>(level) - zero);
      }
    }
  }
}

bool FastMatrix::multiply(const exact::Products& p, int threads) const {
  tensor_->check_codes();
  ByteRows x;
  if (!to_bytes(p, threads, x)) return false;
  if (p.rows <= kFewRows && tensor_->encoding.codes == CodeLayout::kRows) {
    multiply_rows(p, x, threads);
  } else {
    multiply_panels(p, x, threads);
  }
  return true;
}

void FastMatrix::multiply_rows(const exact::Products& p, ByteRows& x, int threads) const {
  const Encoding& e = tensor_->encoding;
  const std::size_t cols = decoder_.cols(), blocks = tensor_->layout.blocks_per_row;
  for (std::uint8_t& byte : x.bytes) byte ^= kOffset;  // q, in two's complement
  const auto q = [&](std::size_t r) {
    return reinterpret_cast<const std::int8_t*>(x.bytes.data()) + (r + 1) * x.stride;
  };
  std::vector<std::int32_t> of_blocks;  // the sums of q, where zero points want them
  if (has_zeros_) {
    const std::vector<std::int8_t> ones(cols, 1);
    of_blocks.resize(p.rows * blocks);
    for (std::size_t r = 0; r < p.rows; ++r)
      block_sums(q(r), ones.data(), cols, e.block_cols, of_blocks.data() + r * blocks);
  }
  // Codes of four bits are multiplied as they lie.
  const bool are_nibbles =
      e.number->bits == 4 && cols % kNibbleTerms == 0 &&
      (blocks == 1 || e.block_cols % kNibbleTerms == 0 || e.block_cols == kNibbleTerms / 2);
  std::vector<std::int8_t> halves(are_nibbles ? p.rows * cols : 0);
  for (std::size_t r = 0; are_nibbles && r < p.rows; ++r) to_halves(q(r), cols, halves.data() + r * cols);
  const auto* const packed = reinterpret_cast<const std::uint8_t*>(tensor_->unchecked_view().codes.data());
  const std::size_t work = (p.rows + 2) * std::max<std::size_t>(cols, 1);
  const std::size_t block = std::min<std::size_t>(e.block_cols, cols);
  parallel_for(
      decoder_.rows(), (1 + 65536 / work + 3) / kTogether * kTogether, threads,
      [&](std::size_t begin, std::size_t end) {
        thread_local std::vector<std::uint8_t> codes;
        thread_local std::vector<float> scales, weighted;
        thread_local std::vector<std::int32_t> sums;
        codes.resize(cols);
        scales.resize(kTogether * blocks);
        sums.resize(kTogether * blocks * p.rows);
        for (std::size_t n = begin; n < end; n += kTogether) {
          const std::size_t count = std::min(kTogether, end - n);
          for (std::size_t i = 0; i < count; ++i) {
            const std::uint8_t* const row = packed + (n + i) * tensor_->layout.row_bytes;
            const std::int8_t* const levels = are_nibbles ? nullptr : levels_of_row(n + i, row, codes);
            for (std::size_t r = 0; r < p.rows; ++r) {
              std::int32_t* const to = sums.data() + (r * kTogether + i) * blocks;
              if (are_nibbles) {
                nibble_sums(levels_, halves.data() + r * cols, row, cols, block, to);
              } else {
                block_sums(q(r), levels, cols, block, to);
              }
              for (std::size_t b = 0; has_zeros_ && b < blocks; ++b)
                to[b] -= zero_level((n + i) / e.block_rows * blocks + b) * of_blocks[r * blocks + b];
            }
          }
          scales_of_rows(n, count, scales);
          for (std::size_t r = 0; r < p.rows; ++r) {
            weighted = scales;
            float made[kTogether];
            weighted_sums(sums.data() + r * kTogether * blocks, weighted.data(), count, blocks, made);
            for (std::size_t i = 0; i < count; ++i)
              p.y[r * p.y_row + (n + i) * p.y_column] = made[i] * x.scales[r];
          }
        }
      });
}

/// The factors of levels of rows [first, first + count), by blocks.
void FastMatrix::scales_of_rows(std::size_t first, std::size_t count, std::span<float> scales) const {
  const EncodedLayout& layout = tensor_->layout;
  const std::size_t blocks = layout.blocks_per_row, rows = tensor_->encoding.block_rows;
  if (rows == 1 && !layout.slots_in_tiles) {
    decoder_.scales(first * blocks, scales.first(count * blocks));
  } else {
    for (std::size_t i = 0; i < count; ++i)
      decoder_.scales((first + i) / rows * blocks, scales.subspan(i * blocks, blocks));
  }
  if (unit_ == 1) return;
  for (float& scale : scales.first(count * blocks)) scale *= unit_;
}

/// Those of row n, in `codes` or, where bytes are levels, where they lie.
const std::int8_t* FastMatrix::levels_of_row(std::size_t n, const std::uint8_t* row,
                                             std::vector<std::uint8_t>& codes) const {
  const NumberFormat& number = *tensor_->encoding.number;
  const bool as_codes = number.grid == Grid::kInteger && unit_ == 1;
  if (as_codes && number.bits == 8) return reinterpret_cast<const std::int8_t*>(row);
  auto* const levels = reinterpret_cast<std::int8_t*>(codes.data());
  decoder_.codes(n, 0, codes);
  if (!as_codes) {
    levels_of(levels_, number.bits, codes.data(), codes.size(), levels);
  } else if (number.is_signed) {
    extend_sign(number.bits, codes.data(), codes.size(), levels);
  }
  return levels;
}

void FastMatrix::multiply_panels(const exact::Products& p, const ByteRows& x, int threads) const {
  const std::size_t outputs = decoder_.rows(), tiles = (outputs + kLanes - 1) / kLanes;
  // Few tiles at a time where there are many threads for them.
  const std::size_t workers = static_cast<std::size_t>(threads > 0 ? threads : default_threads());
  const std::size_t together = std::clamp<std::size_t>(tiles / workers, 1, kTilesAtATime);
  const std::size_t work = (p.rows + 4) * kLanes * together * std::max<std::size_t>(p.terms, 1);
  parallel_for(
      (tiles + together - 1) / together, 1 + 65536 / work, threads, [&](std::size_t begin, std::size_t end) {
        thread_local Panel panel;
        panel.vectors.resize(together * bytes_of_tile());
        panel.scales.resize(together * tensor_->layout.blocks_per_row * kLanes);
        panel.sums.resize((kRowsAtATime + 1) * together * kLanes);
        panel.made.resize(kRowsAtATime * together * kLanes);
        for (std::size_t at = begin; at < end; ++at) {
          const std::size_t first_tile = at * together, count = std::min(together, tiles - first_tile);
          for (std::size_t t = 0; t < count; ++t) decode(first_tile + t, t, panel);
          for (std::size_t first = 0; first < p.rows; first += kRowsAtATime) {
            const std::size_t rows = std::min(kRowsAtATime, p.rows - first);
            multiply_panel(x.bytes.data(), x.stride, first, rows, count, panel);
            const std::size_t lanes = std::min(count * kLanes, outputs - first_tile * kLanes);
            for (std::size_t r = 0; r < rows; ++r) {
              float* const y = p.y + (first + r) * p.y_row + first_tile * kLanes * p.y_column;
              for (std::size_t lane = 0; lane < lanes; ++lane)
                y[lane * p.y_column] = panel.made[r * count * kLanes + lane] * x.scales[first + r];
            }
          }
        }
      });
}

/// panel.made [rows, count * 16]: the sums over blocks of scale * the sum of q * level.
void FastMatrix::multiply_panel(const std::uint8_t* x, std::size_t stride, std::size_t first,
                                std::size_t rows, std::size_t count, Panel& panel) const {
  const Encoding& e = tensor_->encoding;
  const std::size_t blocks = tensor_->layout.blocks_per_row, width = count * kLanes;
  static constexpr std::int32_t kNoStart[kTilesAtATime * kLanes] = {};
  std::fill_n(panel.made.begin(), rows * width, 0.0F);
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t k = b * e.block_cols,
                      terms = std::min<std::uint64_t>(e.block_cols, decoder_.cols() - k);
    integer::ByteProducts part{.rows = 1,
                               .vectors = count,
                               .groups = integer::groups_of(terms),
                               .row = reinterpret_cast<const std::byte*>(x) + k,
                               .row_stride = stride,
                               .vector = panel.vectors.data() + k / kGroup * kVectorBytes,
                               .vector_stride = bytes_of_tile(),
                               .start = kNoStart,
                               .y = panel.sums.data(),
                               .y_stride = width};
    integer::multiply_bytes(way_, integer::InVectors::kWeights, part);
    part.rows = rows;
    part.row += (first + 1) * stride;
    part.y += width;
    integer::multiply_bytes(way_, integer::InVectors::kWeights, part);
    for (std::size_t t = 0; t < count; ++t) {
      const float* const scales = panel.scales.data() + (t * blocks + b) * kLanes;
      const std::int32_t* const weights = panel.sums.data() + t * kLanes;  // their sums
      for (std::size_t r = 0; r < rows; ++r) {
        const std::int32_t* const sums = panel.sums.data() + (r + 1) * width + t * kLanes;
        float* const made = panel.made.data() + r * width + t * kLanes;
        for (std::size_t lane = 0; lane < kLanes; ++lane)
          made[lane] += static_cast<float>(sums[lane] - kOffset * weights[lane]) * scales[lane];
      }
    }
  }
}

}  // namespace crumb::runtime

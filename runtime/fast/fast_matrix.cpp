#include "runtime/fast/fast_matrix.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "base/threads/parallel.h"
#include "formats/number/tiles.h"
#include "runtime/exact/side_by_side.h"
#include "runtime/exact/tile_scales.h"
#include "runtime/fast/row_sums.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kGroup = 4;
constexpr std::uint64_t kMostTerms = 65536;               // of a block: their sums fit 32 bits
constexpr std::size_t kSmallWork = std::size_t{1} << 16;  // products that are worth a thread
constexpr std::size_t kManyRows = 256;                    // of x, for which weights are decoded once
constexpr std::size_t kPartTerms = 512;                   // of weights that the first-level cache holds

std::size_t padded(std::size_t cols) { return (cols + kTileCols - 1) / kTileCols * kTileCols; }

void scale_by(float unit, std::span<float> scales) {
  if (unit == 1) return;
  for (float& scale : scales) scale *= unit;
}

/// All rows of x.
ByteTerms terms_of(const ByteRows& x) {
  return {.q = x.q.data(),
          .stride = x.stride,
          .rows = x.rows,
          .terms = x.terms,
          .sums = x.sums.data(),
          .sums_stride = x.blocks};
}

/// Some rows of x, and outputs that are neighbours.
struct Part {
  std::size_t first = 0, rows = 0;  ///< of x
  std::size_t n = 0, outputs = 0;
};

/// Writes the part's y: made[r * stride + i] times the scale of row r.
void write_part(const exact::Products& p, const ByteRows& x, const Part& part, const float* made,
                std::size_t stride) {
  for (std::size_t r = 0; r < part.rows; ++r, made += stride) {
    float* const y = p.y + (part.first + r) * p.y_row + part.n * p.y_column;
    for (std::size_t i = 0; i < part.outputs; ++i) y[i * p.y_column] = made[i] * x.scales[part.first + r];
  }
}

}  // namespace

/// What a thread needs of sixteen rows of weights.
struct FastMatrix::Sixteen {
  std::vector<float> scales, zeros;   ///< [blocks, 16]
  std::vector<std::int32_t> origins;  ///< [blocks, 16]
  std::vector<std::uint8_t> codes, bytes;
  std::vector<float> made;  ///< [rows of x, 16]
  TileBlocks blocks;

  /// Aligned to 64 bytes.
  std::uint8_t* panel(std::size_t size) {
    if (bytes.size() < size + kTileLine) bytes.resize(size + kTileLine);
    void* at = bytes.data();
    std::size_t space = bytes.size();
    return static_cast<std::uint8_t*>(std::align(kTileLine, size, at, space));
  }
};

FastMatrix::FastMatrix(std::shared_ptr<const QuantizedTensor> tensor, const LevelCodes& levels,
                       AddSquares squares)
    : tensor_(std::move(tensor)),
      decoder_(tensor_->unchecked_view()),
      levels_(levels),
      signed_levels_(signed_bytes(levels)),
      squares_(squares) {
  has_zeros_ = tensor_->encoding.zero == ZeroPoint::kInteger;
}

std::shared_ptr<const FastMatrix> FastMatrix::of(const std::shared_ptr<const QuantizedTensor>& tensor,
                                                 AddSquares squares) {
  const Encoding& e = tensor->encoding;
  const MatrixShape& matrix = tensor->layout.matrix;
  if (!e.has_levels() || e.zero == ZeroPoint::kFloat || matrix.size() == 0) return nullptr;
  if (e.block_cols < matrix.cols && e.block_cols % kGroup != 0) return nullptr;
  if (std::min(e.block_cols, matrix.cols) > kMostTerms) return nullptr;
  const auto levels = LevelCodes::of(RowDecoder(tensor->unchecked_view()).grid(), e.number->bits);
  if (!levels) return nullptr;
  return std::shared_ptr<const FastMatrix>(new FastMatrix(tensor, *levels, squares));
}

std::size_t FastMatrix::block() const {
  return std::min<std::size_t>(tensor_->encoding.block_cols, decoder_.cols());
}

std::size_t FastMatrix::part() const {
  const std::size_t least = std::lcm(block(), std::size_t{kTileCols});
  return block() == decoder_.cols() ? padded(block()) : least * std::max<std::size_t>(kPartTerms / least, 1);
}

bool FastMatrix::multiply(const exact::Products& p, int threads) const {
  tensor_->check_codes();
  if (p.rows == 0) return true;
  ByteRows x;
  if (!x.make(p, block(), threads)) return false;
  const bool in_tiles = tensor_->encoding.codes == CodeLayout::kTiles;
  if (p.rows <= kFewByteRows && in_tiles && takes_tiles(levels_, block(), p.terms)) {
    multiply_tiles(p, x, threads);
  } else if (p.rows <= kFewByteRows && !in_tiles && takes_rows()) {
    multiply_rows(p, x, threads);
  } else if (p.rows >= kManyByteRows && p.terms > 0 && squares_) {
    multiply_squares(p, x, threads);
  } else {
    multiply_panels(p, x, threads);
  }
  return true;
}

/// The scales of sixteen rows from row `first` on, and the levels that bytes begin at.
TileBlocks FastMatrix::blocks_of(const LevelCodes& levels, std::size_t first, std::size_t rows,
                                 Sixteen& memory) const {
  const std::size_t count = tensor_->layout.blocks_per_row * kTileRows;
  memory.scales.resize(count);
  if (has_zeros_) memory.zeros.resize(count);
  exact::scales_of_tile(tensor_->layout, decoder_, first, rows, memory.scales.data(),
                        has_zeros_ ? memory.zeros.data() : nullptr);
  scale_by(levels_.unit, memory.scales);
  TileBlocks made{.block = block(), .scales = memory.scales.data(), .least = levels.least};
  if (!has_zeros_) return made;
  memory.origins.resize(count);
  const float whole = 1 / levels_.unit;
  for (std::size_t i = 0; i < count; ++i)
    memory.origins[i] = levels.least - static_cast<std::int32_t>(memory.zeros[i] * whole);
  made.origins = memory.origins.data();
  return made;
}

void FastMatrix::multiply_tiles(const exact::Products& p, const ByteRows& x, int threads) const {
  const QuantizedView view = tensor_->unchecked_view();
  const auto* const codes = reinterpret_cast<const std::uint8_t*>(view.codes.data());
  const ByteTerms terms = terms_of(x);
  const std::size_t tiles = (p.columns + kTileRows - 1) / kTileRows;
  const std::size_t piece = 1 + kSmallWork / std::max<std::size_t>(p.terms * kTileRows, 1);
  parallel_for(tiles, piece, threads, [&](std::size_t begin, std::size_t end) {
    thread_local Sixteen memory;
    float made[kFewByteRows * kTileRows];
    for (std::size_t tile = begin; tile < end; ++tile) {
      const std::size_t n = tile * kTileRows, count = std::min<std::size_t>(kTileRows, p.columns - n);
      sum_tiles(terms,
                {.codes = codes + view.layout.tile_row(n) * view.layout.row_bytes,
                 .levels = &levels_,
                 .blocks = blocks_of(levels_, n, count, memory)},
                made);
      write_part(p, x, {.rows = p.rows, .n = n, .outputs = count}, made, kTileRows);
    }
  });
}

/// Writes the bytes of columns [begin, end) of so many rows to the panel.
void FastMatrix::decode(const LevelCodes& levels, std::size_t first, std::size_t rows, std::size_t begin,
                        std::size_t end, Sixteen& memory) const {
  const QuantizedView view = tensor_->unchecked_view();
  std::uint8_t* const panel = memory.panel(kTileRows * (padded(end - begin) + kMostChunk));
  if (view.encoding.codes == CodeLayout::kTiles) {
    const auto* const codes = reinterpret_cast<const std::uint8_t*>(view.codes.data());
    const std::size_t bytes = tile_bytes(levels.bits);
    return tiles_to_panel(
        levels, codes + view.layout.tile_row(first) * view.layout.row_bytes + begin / kTileCols * bytes,
        padded(end - begin) / kTileCols, panel);
  }
  const std::size_t count = padded(end - begin);
  memory.codes.assign(rows * count, 0);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::span<std::uint8_t> row = std::span(memory.codes).subspan(r * count, end - begin);
    decoder_.codes(first + r, begin, row);
    codes_to_bytes(levels, row);
  }
  exact::side_by_side(reinterpret_cast<const std::uint32_t*>(memory.codes.data()), count / kGroup, rows,
                      count / kGroup, reinterpret_cast<std::uint32_t*>(panel));
}

void FastMatrix::multiply_panels(const exact::Products& p, const ByteRows& x, int threads) const {
  const std::size_t tiles = (p.columns + kTileRows - 1) / kTileRows, terms_each = part();
  const std::size_t piece = 1 + kSmallWork / std::max<std::size_t>((p.rows + 4) * p.terms * kTileRows, 1);
  parallel_for(tiles, piece, threads, [&](std::size_t begin, std::size_t end) {
    thread_local Sixteen memory;
    for (std::size_t tile = begin; tile < end; ++tile) {
      const std::size_t n = tile * kTileRows, count = std::min<std::size_t>(kTileRows, p.columns - n);
      const TileBlocks blocks = blocks_of(levels_, n, count, memory);
      for (std::size_t first = 0; first < p.rows; first += kManyRows) {
        const std::size_t rows = std::min(kManyRows, p.rows - first);
        memory.made.assign(rows * kTileRows, 0.0F);
        for (std::size_t k = 0; k < p.terms; k += terms_each) {
          const std::size_t until = std::min(p.terms, k + terms_each), before = k / blocks.block;
          decode(levels_, n, count, k, until, memory);
          LevelPanel panel{.bytes = memory.panel(0), .widest = levels_.widest, .blocks = blocks};
          panel.blocks.scales += before * kTileRows;
          if (blocks.origins) panel.blocks.origins += before * kTileRows;
          add_panel({.q = x.row(first) + k,
                     .stride = x.stride,
                     .rows = rows,
                     .terms = until - k,
                     .sums = x.sums_of(first) + before,
                     .sums_stride = x.blocks},
                    panel, memory.made.data(), kTileRows);
        }
        write_part(p, x, {first, rows, n, count}, memory.made.data(), kTileRows);
      }
    }
  });
}

/// What a thread needs of two sixteens of rows of weights.
struct FastMatrix::Squares {
  struct alignas(kTileLine) Sums {
    float made[2 * kManyRows * kTileRows];
    std::int32_t carried[2 * kManyRows * kTileRows];
  };
  Sixteen sixteens[2];
  std::unique_ptr<Sums> sums = std::make_unique<Sums>();
};

std::size_t FastMatrix::end_of_part(std::size_t begin) const {
  const std::size_t cols = decoder_.cols(), size = block();
  const bool may_cut = size > kPartTerms && (size % kMostChunk == 0 || size == cols);
  if (!may_cut) return std::min(cols, begin + part());
  return std::min({cols, begin + kPartTerms, (begin / size + 1) * size});
}

/// Adds what all blocks make of sixteens [first, first + count) of x and one or two of the weights.
void FastMatrix::add_parts(const ChunkedRows& x, std::size_t first, std::size_t count, std::size_t tile,
                           std::size_t tiles, Squares& memory) const {
  std::fill_n(memory.sums->made, count * 2 * kSquare, 0.0F);
  for (std::size_t begin = 0, end = 0; begin < x.terms(); begin = end) {
    end = end_of_part(begin);
    PanelPart part{.begin = begin, .end = end, .panels = tiles};
    const std::size_t before = begin / block() * kTileRows;
    for (std::size_t j = 0; j < tiles; ++j) {
      Sixteen& sixteen = memory.sixteens[j];
      const std::size_t n = (tile + j) * kTileRows;
      decode(signed_levels_, n, std::min<std::size_t>(kTileRows, decoder_.rows() - n), begin, end, sixteen);
      part.panel[j] = {.bytes = sixteen.panel(0), .widest = levels_.widest, .blocks = sixteen.blocks};
      part.panel[j].blocks.scales += before;
      if (part.panel[j].blocks.origins) part.panel[j].blocks.origins += before;
    }
    squares_(x, first, count, part, memory.sums->carried, memory.sums->made);
  }
}

void FastMatrix::multiply_squares(const exact::Products& p, const ByteRows& rows, int threads) const {
  const ChunkedRows x(terms_of(rows), block(), threads);
  const std::size_t all = (p.columns + kTileRows - 1) / kTileRows;
  const std::size_t piece = 1 + kSmallWork / (p.rows * p.terms * kTileRows);
  const auto width = [&](std::size_t tile) {
    return std::min<std::size_t>(kTileRows, p.columns - tile * kTileRows);
  };
  parallel_for((all + 1) / 2, piece, threads, [&](std::size_t begin, std::size_t end) {
    thread_local Squares memory;
    for (std::size_t tile = 2 * begin; tile < std::min(all, 2 * end); tile += 2) {
      const std::size_t tiles = std::min<std::size_t>(2, all - tile);
      for (std::size_t j = 0; j < tiles; ++j) {
        Sixteen& sixteen = memory.sixteens[j];
        sixteen.blocks = blocks_of(signed_levels_, (tile + j) * kTileRows, width(tile + j), sixteen);
      }
      for (std::size_t first = 0; first < p.rows; first += kManyRows) {
        const std::size_t end_of = std::min(p.rows, first + kManyRows);
        add_parts(x, first / kSide, (end_of - first + kSide - 1) / kSide, tile, tiles, memory);
        for (std::size_t r = first; r < end_of; r += kSide) {
          const float* const made = memory.sums->made + (r - first) / kSide * 2 * kSquare;
          for (std::size_t j = 0; j < tiles; ++j)
            write_part(p, rows, {r, std::min(kSide, end_of - r), (tile + j) * kTileRows, width(tile + j)},
                       made + j * kSquare, kSide);
        }
      }
    }
  });
}

/// Whether blocks are whole lanes of row_sums.h.
bool FastMatrix::takes_rows() const {
  const std::size_t lane = PlaneRows{.bits = levels_.bits, .q = {}}.terms_of_lane();
  return (block() == decoder_.cols() || block() % lane == 0) && takes_levels(levels_);
}

void FastMatrix::multiply_rows(const exact::Products& p, const ByteRows& x, int threads) const {
  const QuantizedView view = tensor_->unchecked_view();
  const std::size_t bytes = view.layout.row_bytes;
  const PlaneRows planes = PlaneRows::of(x, levels_.bits);
  const std::size_t tiles = (p.columns + kTileRows - 1) / kTileRows;
  const std::size_t piece = 1 + kSmallWork / std::max<std::size_t>((p.rows + 1) * p.terms * kTileRows, 1);
  parallel_for(tiles, piece, threads, [&](std::size_t begin, std::size_t end) {
    thread_local Sixteen memory;
    float made[kPlaneRows * kRowsTogether];
    for (std::size_t n = begin * kTileRows; n < std::min(end * kTileRows, p.columns); n += kRowsTogether) {
      const std::size_t count = std::min(kRowsTogether, p.columns - n), in_tile = n % kTileRows;
      if (in_tile == 0)
        memory.blocks = blocks_of(levels_, n, std::min<std::size_t>(kTileRows, p.columns - n), memory);
      const auto* codes = reinterpret_cast<const std::uint8_t*>(view.codes.data()) + n * bytes;
      if (count < kRowsTogether) {
        memory.codes.assign(kRowsTogether * bytes, 0);
        std::memcpy(memory.codes.data(), codes, count * bytes);
        codes = memory.codes.data();
      }
      PackedRows w{.codes = codes,
                   .bytes = bytes,
                   .stride = bytes,
                   .levels = &levels_,
                   .blocks = memory.blocks,
                   .sums = x.sums.data(),
                   .sums_stride = x.blocks};
      w.blocks.scales += in_tile;
      if (w.blocks.origins) w.blocks.origins += in_tile;
      weighted_rows(planes, w, made);
      write_part(p, x, {.rows = p.rows, .n = n, .outputs = count}, made, kRowsTogether);
    }
  });
}

}  // namespace crumb::runtime

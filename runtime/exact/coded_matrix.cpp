#include "runtime/exact/coded_matrix.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/processor.h"
#include "base/threads/parallel.h"
#include "runtime/exact/coded_products.h"
#include "runtime/exact/coded_tiles.h"
#include "runtime/exact/many_rows.h"
#include "runtime/exact/tile_scales.h"
#include "runtime/scratch.h"

namespace crumb::runtime::exact {
namespace {

constexpr std::size_t kSmallWork = std::size_t{1} << 16;  // multiplications that are worth a thread
constexpr std::size_t kRowsAtOnce = 16;                   // whose scales are decoded at a time
// Rows of x for which codes are decoded again every kFewRows rows, faster than to panels of floats once.
constexpr std::size_t kMostOfRows = 8, kMostOfTiles = 8;
constexpr std::size_t kFewOfTiles = 3;  // the same where a kernel takes one row of x at a time

/// Calls multiply(some) for a few rows of x at a time.
template <class Multiply>
void few_at_a_time(const Products& products, const Multiply& multiply) {
  for (std::size_t m = 0; m < products.rows; m += kFewRows)
    multiply(some_rows_of(products, m, std::min(kFewRows, products.rows - m)));
}

/// Whether blocks of so many columns are whole vectors of codes.
bool fits(const Encoding& encoding, std::size_t columns) {
  const std::size_t block = encoding.block_cols;
  const bool in_tiles = encoding.codes == CodeLayout::kTiles;
  if (in_tiles && block == kPartialSums && encoding.number->bits == 4 && encoding.zero == ZeroPoint::kNone)
    return true;
  return block >= columns || block % (in_tiles ? kTileCols : kPartialSums) == 0;
}

}  // namespace

CodedMatrix::CodedMatrix(std::shared_ptr<const QuantizedTensor> tensor)
    : tensor_(std::move(tensor)), decoder_(tensor_->unchecked_view()) {
  if (tensor_->encoding.number->bits == 8) bytes_ = byte_values(decoder_.grid().values.data());
}

bool CodedMatrix::is_for(std::size_t rows) const {
  return rows > 0 && (rows <= kMostOfRows || tensor_->encoding.codes == CodeLayout::kTiles);
}

std::shared_ptr<const CodedMatrix> CodedMatrix::of(const std::shared_ptr<const QuantizedTensor>& tensor) {
  const Encoding& encoding = tensor->encoding;
  const NumberFormat& number = *encoding.number;
  if ((number.learned && tensor->layout.matrices > 1) || !fits(encoding, tensor->layout.matrix.cols))
    return nullptr;
  std::shared_ptr<const CodedMatrix> made(new CodedMatrix(tensor));
  if (!takes_codes(number.bits, made->decoder_.grid().values.data())) return nullptr;
  return made;
}

void CodedMatrix::multiply(const Products& products, std::size_t first, int threads) const {
  tensor_->check_codes();
  if (tensor_->encoding.codes != CodeLayout::kTiles) return multiply_rows(products, first, threads);
  const bool takes_four = tensor_->encoding.zero == ZeroPoint::kNone && may_use(Isa::kAvx512);  // at once
  if (products.rows > (takes_four ? kMostOfTiles : kFewOfTiles) && takes_many(products))
    return multiply_many(products, first, threads);
  multiply_tiles(products, first, threads);
}

void CodedMatrix::multiply_rows(const Products& products, std::size_t first, int threads) const {
  const QuantizedView view = tensor_->unchecked_view();
  const EncodedLayout& layout = view.layout;
  const std::size_t blocks = layout.blocks_per_row;
  const bool has_zeros = view.encoding.zero != ZeroPoint::kNone;
  const auto* const codes = reinterpret_cast<const std::uint8_t*>(view.codes.data());
  CodedRows w{.end = codes + view.codes.size(),
              .row_bytes = layout.row_bytes,
              .bits = view.encoding.number->bits,
              .values = decoder_.grid().values.data(),
              .bytes = bytes_,
              .block = view.encoding.block_cols,
              .adds_zeros = view.encoding.zero == ZeroPoint::kMinimum};
  const std::size_t least = kSmallWork / std::max<std::size_t>(products.rows * products.terms, 1) + 1;
  const std::size_t piece = (std::max(least, kRowsAtOnce) + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce;
  parallel_for(products.columns, piece, threads, [&](std::size_t begin, std::size_t end) {
    thread_local Scratch scratch;
    float* const scales = scratch.of(2 * kRowsAtOnce * blocks);
    float* const zeros = scales + kRowsAtOnce * blocks;
    CodedRows part = w;
    part.scales = scales;
    part.zeros = has_zeros ? zeros : nullptr;
    for (std::size_t n = begin; n < end; n += kRowsAtOnce) {
      Products some = products;
      some.columns = std::min(kRowsAtOnce, end - n);
      some.y += n * products.y_column;
      for (std::size_t i = 0; i < some.columns; ++i) {
        const std::uint64_t block = layout.first_block(first + n + i);
        decoder_.scales(block, {scales + i * blocks, blocks});
        if (has_zeros) decoder_.zero_points(block, {zeros + i * blocks, blocks});
      }
      part.codes = codes + (first + n) * layout.row_bytes;
      few_at_a_time(some, [&](const Products& few) { multiply_codes(few, part); });
    }
  });
}

CodedTiles CodedMatrix::tiles() const {
  return {.row_bytes = tensor_->layout.row_bytes,
          .bits = tensor_->encoding.number->bits,
          .values = decoder_.grid().values.data(),
          .bytes = bytes_,
          .block = tensor_->encoding.block_cols,
          .adds_zeros = tensor_->encoding.zero == ZeroPoint::kMinimum};
}

void CodedMatrix::set_row(CodedTiles& w, std::size_t first, std::size_t count, float* memory) const {
  const QuantizedView view = tensor_->unchecked_view();
  const bool has_zeros = view.encoding.zero != ZeroPoint::kNone;
  float* const zeros = has_zeros ? memory + kTileRows * view.layout.blocks_per_row : nullptr;
  scales_of_tile(view.layout, decoder_, first, count, memory, zeros);
  w.scales = memory;
  w.zeros = zeros;
  w.codes = reinterpret_cast<const std::uint8_t*>(view.codes.data()) +
            view.layout.tile_row(first) * view.layout.row_bytes;
}

void CodedMatrix::multiply_tiles(const Products& products, std::size_t first, int threads) const {
  const std::size_t rows_of_tiles = (products.columns + kTileRows - 1) / kTileRows;
  const std::size_t piece =
      kSmallWork / std::max<std::size_t>(products.rows * products.terms * kTileRows, 1) + 1;
  parallel_for(rows_of_tiles, piece, threads, [&](std::size_t begin, std::size_t end) {
    thread_local Scratch scratch;
    float* const scales = scratch.of(2 * kTileRows * tensor_->layout.blocks_per_row);
    CodedTiles part = tiles();
    for (std::size_t tile = begin; tile < end; ++tile) {
      const std::size_t n = tile * kTileRows;
      Products some = products;
      some.columns = std::min<std::size_t>(kTileRows, products.columns - n);
      some.y += n * products.y_column;
      set_row(part, first + n, some.columns, scales);
      few_at_a_time(some, [&](const Products& few) { exact::multiply_tiles(few, part); });
    }
  });
}

void CodedMatrix::multiply_many(const Products& products, std::size_t first, int threads) const {
  const auto write = [&](std::size_t n, std::size_t count, float* to, std::size_t stride) {
    thread_local Scratch scratch;
    float* const scales = scratch.of(2 * kTileRows * tensor_->layout.blocks_per_row);
    CodedTiles w = tiles();
    for (std::size_t i = 0; i < count; i += kTileRows) {
      set_row(w, first + n + i, std::min<std::size_t>(kTileRows, count - i), scales);
      decode_terms(w, products.terms, to + i, stride);
    }
  };
  exact::multiply_many(products, write, threads);
}

}  // namespace crumb::runtime::exact

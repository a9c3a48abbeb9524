#include "quant/codes/code_layout.h"

#include <cstring>

#include "base/threads/parallel.h"
#include "formats/number/packing.h"

namespace crumb {
namespace {

EncodedLayout layout_for(const QuantizedView& tensor, CodeLayout codes) {
  Encoding encoding = tensor.encoding;
  encoding.codes = codes;
  return encoded_layout(encoding, tensor.shape).take();
}

/// Moves one item of `size` bytes for each block from its slot in `source` to its slot in `target`.
std::vector<std::byte> moved(std::span<const std::byte> from, const EncodedLayout& source,
                             const EncodedLayout& target, size_t size) {
  std::vector<std::byte> made(target.slots * size);
  for (uint64_t block = 0; block < source.blocks(); ++block)
    std::memcpy(&made[target.slot(block) * size], &from[source.slot(block) * size], size);
  return made;
}

/// Moves packed codes, one for each block, likewise; each matrix' codes begin on a whole byte.
std::vector<std::byte> moved_codes(std::span<const std::byte> from, const EncodedLayout& source,
                                   const EncodedLayout& target, int bits) {
  std::vector<std::byte> made(target.zeros_bytes);
  std::vector<uint8_t> there(source.slots_each), moved(target.slots_each);
  for (uint64_t matrix = 0; matrix < source.matrices; ++matrix) {
    unpack_codes(reinterpret_cast<const uint8_t*>(from.data()) + matrix * source.zeros_each, bits, 0, there);
    for (uint64_t block = 0; block < source.blocks_each(); ++block)  // the same slots in every matrix
      moved[target.slot(block)] = there[source.slot(block)];
    pack_codes(moved, bits, reinterpret_cast<uint8_t*>(made.data()) + matrix * target.zeros_each);
  }
  return made;
}

CodeBytes codes_in_rows(const QuantizedView& tensor, const EncodedLayout& target, int threads) {
  const RowDecoder decoder(tensor);
  const int bits = tensor.encoding.number->bits;
  CodeBytes made(target.codes_bytes);
  const uint64_t grain = std::max<uint64_t>(1, 65536 / std::max<uint64_t>(1, decoder.cols()));
  parallel_for(decoder.rows(), grain, threads, [&](size_t begin, size_t end) {
    std::vector<uint8_t> codes(decoder.cols());
    for (size_t row = begin; row < end; ++row) {
      decoder.codes(row, 0, codes);
      pack_codes(codes, bits, reinterpret_cast<uint8_t*>(made.data()) + row * target.row_bytes);
    }
  });
  return made;
}

}  // namespace

bool fits_tiles(std::span<const uint64_t> shape, uint64_t stack_axes) {
  const Result<MatrixShape> matrix = matrix_shape(shape.subspan(stack_axes));
  return matrix.ok() && matrix.value().rows >= kTileRows && matrix.value().cols >= kTileCols / 2;
}

CodeBytes codes_in_tiles(const QuantizedView& rows, int threads) {
  const RowDecoder decoder(rows);
  const EncodedLayout target = layout_for(rows, CodeLayout::kTiles);
  const int bits = rows.encoding.number->bits;
  CodeBytes made(target.codes_bytes);
  const uint64_t each = (target.matrix_rows + kTileRows - 1) / kTileRows, tile_rows = target.matrices * each;
  const uint64_t across = (decoder.cols() + kTileCols - 1) / kTileCols;
  const uint64_t grain = std::max<uint64_t>(1, 128 / std::max<uint64_t>(1, across));
  parallel_for(tile_rows, grain, threads, [&](size_t begin, size_t end) {
    std::vector<uint8_t> codes(kTileRows * across * kTileCols);
    std::array<uint8_t, kTileRows * kTileCols> tile;
    for (size_t at = begin; at < end; ++at) {
      std::ranges::fill(codes, uint8_t{0});
      const uint64_t inside = at % each * kTileRows, first = at / each * target.matrix_rows + inside;
      const uint64_t count = std::min(kTileRows, target.matrix_rows - inside);
      for (uint64_t r = 0; r < count; ++r)
        decoder.codes(first + r, 0, std::span(codes).subspan(r * across * kTileCols, decoder.cols()));
      for (uint64_t c = 0; c < across; ++c) {
        for (uint64_t r = 0; r < kTileRows; ++r)
          std::memcpy(&tile[r * kTileCols], &codes[(r * across + c) * kTileCols], kTileCols);
        pack_tile(tile, bits,
                  reinterpret_cast<uint8_t*>(made.data()) + at * target.row_bytes + c * tile_bytes(bits));
      }
    }
  });
  return made;
}

BlockParts blocks_in_layout(const QuantizedView& tensor, CodeLayout codes) {
  const Encoding& encoding = tensor.encoding;
  const EncodedLayout target = layout_for(tensor, codes);
  const auto bytes_of = [](ScaleFormat format) {
    return static_cast<size_t>(scale_format_row(format).bytes);
  };
  BlockParts made{.scales = moved(tensor.scales, tensor.layout, target, bytes_of(encoding.scale)),
                  .zeros = {}};
  if (encoding.zero == ZeroPoint::kInteger) {
    made.zeros = moved_codes(tensor.zeros, tensor.layout, target, encoding.number->bits);
  } else if (encoding.zero != ZeroPoint::kNone) {
    made.zeros = moved(tensor.zeros, tensor.layout, target, bytes_of(zero_point_format(encoding.scale)));
  }
  return made;
}

QuantizedTensor in_layout(const QuantizedView& tensor, std::string spec, CodeLayout codes, int threads) {
  QuantizedTensor made;
  made.spec = std::move(spec);
  made.shape.assign(tensor.shape.begin(), tensor.shape.end());
  made.encoding = tensor.encoding;
  made.encoding.codes = codes;
  made.layout = layout_for(tensor, codes);
  if (codes == tensor.encoding.codes) {
    made.codes.assign(tensor.codes.begin(), tensor.codes.end());
  } else {
    made.codes = codes == CodeLayout::kTiles ? codes_in_tiles(tensor, threads)
                                             : codes_in_rows(tensor, made.layout, threads);
  }
  BlockParts blocks = blocks_in_layout(tensor, codes);
  made.scales = std::move(blocks.scales);
  made.zeros = std::move(blocks.zeros);
  made.codebook.assign(tensor.codebook.begin(), tensor.codebook.end());
  made.tensor_scales.assign(tensor.tensor_scales.begin(), tensor.tensor_scales.end());
  return made;
}

QuantizedTensor transposed(const QuantizedView& tensor, std::string spec) {
  const RowDecoder decoder(tensor);
  const uint64_t rows = decoder.rows(), cols = decoder.cols();
  const int bits = tensor.encoding.number->bits;
  QuantizedTensor made;
  made.spec = std::move(spec);
  made.shape = {tensor.shape[1], tensor.shape[0]};
  made.encoding = tensor.encoding;
  std::swap(made.encoding.block_rows, made.encoding.block_cols);
  made.layout = encoded_layout(made.encoding, made.shape).take();
  std::vector<uint8_t> codes(rows * cols), row(cols);
  for (uint64_t r = 0; r < rows; ++r) {
    decoder.codes(r, 0, row);
    for (uint64_t c = 0; c < cols; ++c) codes[c * rows + r] = row[c];
  }
  made.codes.resize(made.layout.codes_bytes);
  for (uint64_t c = 0; c < cols; ++c)
    pack_codes(std::span(codes).subspan(c * rows, rows), bits,
               reinterpret_cast<uint8_t*>(made.codes.data()) + c * made.layout.row_bytes);
  const uint64_t down = tensor.layout.bands, across = tensor.layout.blocks_per_row;
  const auto moved_blocks = [&](std::span<const std::byte> from, size_t size) {
    std::vector<std::byte> to(from.size());
    for (uint64_t block = 0; block < down * across; ++block)
      std::memcpy(&to[(block % across * down + block / across) * size], &from[block * size], size);
    return to;
  };
  const auto bytes_of = [](ScaleFormat format) {
    return static_cast<size_t>(scale_format_row(format).bytes);
  };
  made.scales = moved_blocks(tensor.scales, bytes_of(tensor.encoding.scale));
  if (tensor.encoding.zero == ZeroPoint::kInteger) {
    std::vector<std::byte> patterns(down * across);
    auto* const some = reinterpret_cast<uint8_t*>(patterns.data());
    unpack_codes(reinterpret_cast<const uint8_t*>(tensor.zeros.data()), bits, 0, {some, patterns.size()});
    patterns = moved_blocks(patterns, 1);
    made.zeros.resize(made.layout.zeros_bytes);
    pack_codes({reinterpret_cast<const uint8_t*>(patterns.data()), patterns.size()}, bits,
               reinterpret_cast<uint8_t*>(made.zeros.data()));
  } else if (tensor.encoding.zero != ZeroPoint::kNone) {
    made.zeros = moved_blocks(tensor.zeros, bytes_of(zero_point_format(tensor.encoding.scale)));
  }
  made.codebook.assign(tensor.codebook.begin(), tensor.codebook.end());
  made.tensor_scales.assign(tensor.tensor_scales.begin(), tensor.tensor_scales.end());
  return made;
}

}  // namespace crumb

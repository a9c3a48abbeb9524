#include "quant/quantized_tensor.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/threads/parallel.h"
#include "formats/dtype.h"
#include "formats/half.h"
#include "formats/number/packing.h"
#include "quant/loops/decode_blocks.h"
#include "quant/loops/loops.h"

namespace crumb {
namespace {

constexpr uint64_t kChunk = 1024;  // columns decoded at a time
constexpr uint64_t kWide = 8;      // decode_blocks() takes multiples of this

uint32_t load_pattern(std::span<const std::byte> bytes, uint64_t index, ScaleFormat format) {
  const auto size = static_cast<size_t>(scale_format_row(format).bytes);
  uint32_t pattern = 0;
  std::memcpy(&pattern, bytes.data() + index * size, size);
  return pattern;
}

void add_to(float* x, uint64_t count, float minimum) {
  for (uint64_t i = 0; i < count; ++i) x[i] += minimum;
}

std::vector<float> floats_of(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

/// Returns one matrix' share of a part that all matrices share equally.
template <class T>
std::span<const T> share_of(std::span<const T> all, uint64_t matrices, uint64_t index) {
  return all.subspan(all.size() / matrices * index, all.size() / matrices);
}

CodeGrid grid_for(const QuantizedView& view, uint64_t matrix) {
  return make_code_grid(*view.encoding.number, view.encoding.range, {},
                        floats_of(share_of(view.codebook, view.layout.matrices, matrix)));
}

}  // namespace

QuantizedView matrix_of(const QuantizedView& stack, uint64_t index) {
  const uint64_t count = stack.layout.matrices;
  QuantizedView one = stack;
  one.shape = stack.shape.subspan(stack.encoding.stack_axes);
  one.encoding.stack_axes = 0;
  one.layout = encoded_layout(one.encoding, one.shape).take();
  one.codes = share_of(stack.codes, count, index);
  one.scales = share_of(stack.scales, count, index);
  one.zeros = share_of(stack.zeros, count, index);
  one.codebook = share_of(stack.codebook, count, index);
  one.tensor_scales = share_of(stack.tensor_scales, count, index);
  return one;
}

RowDecoder::RowDecoder(const QuantizedView& view)
    : view_(view),
      own_grids_(view.encoding.number->learned && view.layout.matrices > 1),
      grid_(grid_for(view, 0)) {
  static std::atomic<uint64_t> last{0};
  if (own_grids_) number_ = ++last;
}

const CodeGrid& RowDecoder::grid_of_matrix(uint64_t row) const {
  struct Made {
    uint64_t decoder = 0, matrix = 0;
    CodeGrid grid;
  };
  thread_local Made made;
  const uint64_t matrix = view_.layout.matrix_of_row(row);
  if (made.decoder != number_ || made.matrix != matrix) made = {number_, matrix, grid_for(view_, matrix)};
  return made.grid;
}

float RowDecoder::scale(uint64_t block) const {
  const Encoding& encoding = view_.encoding;
  const uint64_t slot = view_.layout.slot(block);
  float scale = decode_scale(encoding.scale, load_pattern(view_.scales, slot, encoding.scale));
  if (encoding.scale_exponent != 0) scale *= std::ldexp(1.0F, encoding.scale_exponent);
  if (encoding.tensor_scale) scale *= view_.tensor_scale(view_.layout.matrix_of_block(block));
  return scale;
}

void RowDecoder::scales(uint64_t first, std::span<float> out) const {
  const uint64_t slot = view_.layout.slot(first);
  if (!view_.layout.slots_in_tiles) return scales_of_slots(slot, out);
  decode_slots(slot, kTileRows, out);
}

void RowDecoder::scales_of_slots(uint64_t first, std::span<float> out) const { decode_slots(first, 1, out); }

void RowDecoder::decode_slots(uint64_t first, uint64_t step, std::span<float> out) const {
  if (out.empty()) return;
  const Encoding& encoding = view_.encoding;
  const ScaleFormat format = encoding.scale;
  if (step == 1 && format == ScaleFormat::kF16) {
    widen_to_float(DType::kF16, view_.scales, first, out);
  } else if (scale_format_row(format).bytes == 1) {
    decode_scale_bytes(format, view_.scales.data() + first, step, out);
  } else {
    for (uint64_t i = 0; i < out.size(); ++i)
      out[i] = decode_scale(format, load_pattern(view_.scales, first + i * step, format));
  }
  if (encoding.scale_exponent != 0) {
    const float factor = std::ldexp(1.0F, encoding.scale_exponent);
    for (float& scale : out) scale *= factor;
  }
  if (encoding.tensor_scale) {
    const float factor = view_.tensor_scale(first / view_.layout.slots_each);
    for (float& scale : out) scale *= factor;
  }
}

float RowDecoder::zero_point(uint64_t block) const {
  float zero = 0;
  zero_points_of_slots(view_.layout.slot(block), {&zero, 1});
  return zero;
}

void RowDecoder::zero_points(uint64_t first, std::span<float> out) const {
  if (!view_.layout.slots_in_tiles) return zero_points_of_slots(view_.layout.slot(first), out);
  for (uint64_t i = 0; i < out.size(); ++i) out[i] = zero_point(first + i);
}

void RowDecoder::zero_points_of_slots(uint64_t first, std::span<float> out) const {
  const Encoding& encoding = view_.encoding;
  if (encoding.zero == ZeroPoint::kNone) {
    std::ranges::fill(out, 0.0F);
  } else if (encoding.zero != ZeroPoint::kInteger) {
    const ScaleFormat format = zero_point_format(encoding.scale);
    for (uint64_t i = 0; i < out.size(); ++i)
      out[i] = decode_scale(format, load_pattern(view_.zeros, first + i, format));
  } else {
    const uint64_t before = first / view_.layout.slots_each;
    const auto* const from =
        reinterpret_cast<const uint8_t*>(view_.zeros.data()) + before * view_.layout.zeros_each;
    const uint64_t own = first - before * view_.layout.slots_each;
    std::array<uint8_t, 256> patterns;
    for (uint64_t i = 0; i < out.size(); i += patterns.size()) {
      const std::span<float> some = out.subspan(i, std::min<uint64_t>(patterns.size(), out.size() - i));
      unpack_codes(from, encoding.number->bits, own + i, std::span(patterns).first(some.size()));
      for (uint64_t j = 0; j < some.size(); ++j) some[j] = grid_.values[patterns[j]];
    }
  }
}

void RowDecoder::codes(uint64_t row, uint64_t first, std::span<uint8_t> codes) const {
  const int bits = view_.encoding.number->bits;
  const auto* bytes = reinterpret_cast<const uint8_t*>(view_.codes.data());
  if (view_.encoding.codes == CodeLayout::kRows)
    return unpack_codes(bytes + row * view_.layout.row_bytes, bits, first, codes);
  bytes += view_.layout.tile_row(row) * view_.layout.row_bytes;
  const uint64_t row_in_tile = view_.layout.row_in_tile(row);
  std::array<uint8_t, kTileCols> some;
  while (!codes.empty()) {
    const uint64_t at = first % kTileCols, count = std::min<uint64_t>(kTileCols - at, codes.size());
    const uint8_t* const tile = bytes + first / kTileCols * tile_bytes(bits);
    if (count == kTileCols) {
      unpack_tile_row(tile, bits, row_in_tile, codes.first<kTileCols>());
    } else {
      unpack_tile_row(tile, bits, row_in_tile, some);
      std::copy_n(some.begin() + static_cast<ptrdiff_t>(at), count, codes.begin());
    }
    codes = codes.subspan(count);
    first += count;
  }
}

void RowDecoder::values(uint64_t row, uint64_t first, std::span<float> out) const {
  const Encoding& encoding = view_.encoding;
  const uint64_t blocks_before = view_.layout.first_block(row);
  const CodeGrid& of_row = grid(row);
  const bool is_minimum = encoding.zero == ZeroPoint::kMinimum;
  const bool has_zero = encoding.zero != ZeroPoint::kNone;
  const DecodeLoop decode = decode_loop();
  const bool small = encoding.number->bits <= 4 && !has_zero && encoding.block_cols % kWide == 0;
  uint8_t buffer[kChunk];
  float factors[kChunk];
  for (uint64_t done = 0; done < out.size();) {
    const uint64_t count = std::min<uint64_t>(out.size() - done, kChunk);
    codes(row, first + done, {buffer, count});
    const uint64_t first_block = (first + done) / encoding.block_cols;
    const uint64_t last_block = (first + done + count - 1) / encoding.block_cols;
    scales(blocks_before + first_block, {factors, last_block - first_block + 1});
    if (small && count % kWide == 0 && (first + done) % encoding.block_cols == 0 &&
        decode_blocks(of_row, buffer, count, encoding.block_cols, factors, out.data() + done)) {
      done += count;
      continue;
    }
    for (uint64_t i = 0; i < count;) {
      const uint64_t col = first + done + i;
      const uint64_t block = col / encoding.block_cols;
      const uint64_t run = std::min(count - i, (block + 1) * encoding.block_cols - col);
      const uint64_t index = blocks_before + block;
      float* const made = out.data() + done + i;
      const float zero = has_zero ? zero_point(index) : 0.0F;
      decode(of_row, buffer + i, run, factors[block - first_block], is_minimum ? 0.0F : zero, made);
      if (is_minimum) add_to(made, run, zero);
      i += run;
    }
    done += count;
  }
}

void RowDecoder::flat_values(uint64_t first, std::span<float> out) const {
  while (!out.empty()) {
    const uint64_t row = first / cols(), col = first % cols();
    const uint64_t run = std::min<uint64_t>(out.size(), cols() - col);
    values(row, col, out.first(run));
    out = out.subspan(run);
    first += run;
  }
}

float RowDecoder::value_ref(uint64_t row, uint64_t col) const {
  const Encoding& encoding = view_.encoding;
  const uint64_t block = view_.layout.first_block(row) + col / encoding.block_cols;
  uint8_t pattern = 0;
  const auto* bytes = reinterpret_cast<const uint8_t*>(view_.codes.data());
  const int bits = encoding.number->bits;
  if (encoding.codes == CodeLayout::kRows) {
    unpack_codes_ref(bytes + row * view_.layout.row_bytes, bits, col, {&pattern, 1});
  } else {
    bytes += view_.layout.tile_row(row) * view_.layout.row_bytes + col / kTileCols * tile_bytes(bits);
    pattern = tile_code_ref(bytes, bits, view_.layout.row_in_tile(row), col % kTileCols);
  }
  if (encoding.zero != ZeroPoint::kMinimum)
    return decode_ref(grid(row), pattern, scale(block), zero_point(block));
  const float product = decode_ref(grid(row), pattern, scale(block), 0.0F);
  return product + zero_point(block);
}

void decode_rows(const RowDecoder& decoder, uint64_t first_row, std::span<float> out, int threads) {
  const uint64_t cols = decoder.cols();
  if (cols == 0) return;
  const uint64_t grain = std::max<uint64_t>(1, 65536 / cols);
  parallel_for(out.size() / cols, grain, threads, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row)
      decoder.values(first_row + row, 0, out.subspan(row * cols, cols));
  });
}

void dequantize(const QuantizedView& tensor, std::span<float> out, int threads) {
  decode_rows(RowDecoder(tensor), 0, out, threads);
}

}  // namespace crumb

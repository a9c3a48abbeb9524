#include "quant/quantized_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/threads/parallel.h"
#include "formats/number/packing.h"
#include "quant/loops/loops.h"

namespace crumb {
namespace {

constexpr uint64_t kChunk = 1024;  // columns decoded at a time

uint32_t load_pattern(std::span<const std::byte> bytes, uint64_t index, ScaleFormat format) {
  const auto size = static_cast<size_t>(scale_format_row(format).bytes);
  uint32_t pattern = 0;
  std::memcpy(&pattern, bytes.data() + index * size, size);
  return pattern;
}

std::vector<float> floats_of(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

}  // namespace

RowDecoder::RowDecoder(const QuantizedView& view)
    : view_(view),
      grid_(make_code_grid(*view.encoding.number, view.encoding.range, {}, floats_of(view.codebook))) {}

float RowDecoder::scale(uint64_t block) const {
  const Encoding& encoding = view_.encoding;
  float scale = decode_scale(encoding.scale, load_pattern(view_.scales, block, encoding.scale));
  if (encoding.scale_exponent != 0) scale *= std::ldexp(1.0F, encoding.scale_exponent);
  if (encoding.tensor_scale) scale *= view_.tensor_scale;
  return scale;
}

float RowDecoder::zero_point(uint64_t block) const {
  const Encoding& encoding = view_.encoding;
  if (encoding.zero == ZeroPoint::kNone) return 0.0F;
  if (encoding.zero == ZeroPoint::kFloat) {
    const ScaleFormat format = zero_point_format(encoding.scale);
    return decode_scale(format, load_pattern(view_.zeros, block, format));
  }
  uint8_t pattern = 0;
  unpack_codes(reinterpret_cast<const uint8_t*>(view_.zeros.data()), encoding.number->bits, block,
               {&pattern, 1});
  return grid_.values[pattern];
}

void RowDecoder::codes(uint64_t row, uint64_t first, std::span<uint8_t> codes) const {
  const auto* bytes = reinterpret_cast<const uint8_t*>(view_.codes.data()) + row * view_.layout.row_bytes;
  unpack_codes(bytes, view_.encoding.number->bits, first, codes);
}

void RowDecoder::values(uint64_t row, uint64_t first, std::span<float> out) const {
  const Encoding& encoding = view_.encoding;
  const uint64_t blocks_before = row / encoding.block_rows * view_.layout.blocks_per_row;
  uint8_t buffer[kChunk];
  for (uint64_t done = 0; done < out.size();) {
    const uint64_t count = std::min<uint64_t>(out.size() - done, kChunk);
    codes(row, first + done, {buffer, count});
    for (uint64_t i = 0; i < count;) {
      const uint64_t col = first + done + i;
      const uint64_t block = col / encoding.block_cols;
      const uint64_t run = std::min(count - i, (block + 1) * encoding.block_cols - col);
      const uint64_t index = blocks_before + block;
      decode_loop()(grid_, buffer + i, run, scale(index), zero_point(index), out.data() + done + i);
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
  const uint64_t block = row / encoding.block_rows * view_.layout.blocks_per_row + col / encoding.block_cols;
  uint8_t pattern = 0;
  const auto* bytes = reinterpret_cast<const uint8_t*>(view_.codes.data()) + row * view_.layout.row_bytes;
  unpack_codes_ref(bytes, encoding.number->bits, col, {&pattern, 1});
  return decode_ref(grid_, pattern, scale(block), zero_point(block));
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

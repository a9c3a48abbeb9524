#include "quant/codes/given_scales.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>

#include "base/files/counted.h"
#include "base/threads/parallel.h"
#include "formats/dtype.h"
#include "formats/number/packing.h"
#include "formats/number/scale_format.h"
#include "quant/codes/above_minimum.h"
#include "quant/loops/loops.h"

namespace crumb {
namespace {

constexpr std::uint64_t kPieceValues = 1 << 15;  // values a thread takes at a time

[[noreturn]] void refuse(const QuantSpec& spec, const std::string& why) {
  throw Error("quantizing to " + spec.to_string() + " with given scales: " + why);
}

void append(std::uint32_t pattern, ScaleFormat format, std::vector<std::byte>& bytes) {
  const auto* first = reinterpret_cast<const std::byte*>(&pattern);
  bytes.insert(bytes.end(), first, first + scale_format_row(format).bytes);
}

void store_scales(const QuantSpec& spec, const CodeGrid& grid, std::span<const float> scales,
                  QuantizedTensor& tensor) {
  for (std::size_t block = 0; block < scales.size(); ++block) {
    const float scale = scales[block];
    const bool good = std::isfinite(scale) && scale >= 0;
    const std::uint32_t pattern = good ? encode_scale(spec.scale, scale).pattern : 0;
    if (!good || decode_scale(spec.scale, pattern) != scale) {
      refuse(spec, "that of block " + std::to_string(block) + " is " + number_text(scale) +
                       ", expected one that " + std::string(scale_format_row(spec.scale).name) + " holds");
    }
    // Where e8m0 has no scale 0, the smallest scale with codes of zero has the same values.
    const bool zero_codes = scale == 0 && spec.scale == ScaleFormat::kE8M0 && grid.has_zero();
    append(zero_codes ? 0 : pattern, spec.scale, tensor.scales);
  }
}

void store_zeros(const QuantSpec& spec, std::span<const float> zeros, QuantizedTensor& tensor) {
  std::vector<std::uint8_t> patterns;
  for (std::size_t block = 0; block < zeros.size(); ++block) {
    const float zero = zeros[block];
    const ScaleFormat format = zero_point_format(spec.scale);
    const bool whole =
        spec.zero != ZeroPoint::kInteger ||
        (zero == std::trunc(zero) && zero >= static_cast<float>(spec.number->least_code(spec.range)) &&
         zero <= static_cast<float>(spec.number->greatest_code(spec.range)));
    if (!std::isfinite(zero) || !whole ||
        (spec.zero != ZeroPoint::kInteger && decode_scale(format, encode_float(format, zero)) != zero)) {
      refuse(spec, "the zero point of block " + std::to_string(block) + " is " + number_text(zero) +
                       ", which its format does not hold");
    }
    if (spec.zero == ZeroPoint::kInteger) {
      patterns.push_back(spec.number->bits_of(static_cast<int>(zero)));
    } else {
      append(encode_float(format, zero), format, tensor.zeros);
    }
  }
  if (patterns.empty()) return;
  tensor.zeros.resize(tensor.layout.zeros_bytes);
  pack_codes(patterns, spec.number->bits, reinterpret_cast<std::uint8_t*>(tensor.zeros.data()));
}

void check(const QuantSpec& spec, std::span<const float> values, std::span<const std::uint64_t> shape,
           const GivenScales& given, const EncodedLayout& layout) {
  if (spec.block_format) refuse(spec, "a block format brings its own");
  if (spec.number->learned) refuse(spec, "the format learns a codebook");
  if (const auto misfit = spec.misfit(shape)) refuse(spec, *misfit + "; choose another size or add ':pad'");
  const auto count = [&](const char* what, std::size_t found, std::uint64_t expected) {
    if (found == expected) return;
    refuse(spec, count_text(found, what) + " given for shape " + shape_text(shape) + ", expected " +
                     std::to_string(expected));
  };
  count("value", values.size(), layout.matrix.size());
  count("scale", given.scales.size(), layout.blocks());
  count("zero point", given.zeros.size(), spec.zero == ZeroPoint::kNone ? 0 : layout.blocks());
}

}  // namespace

int halvings_of_scale(const QuantSpec& spec) {
  const NumberFormat& number = *spec.number;
  if (number.grid == Grid::kHalfInteger) return 1;
  if (number.grid != Grid::kMinifloat) return 0;
  const int halvings = std::max(0, number.bias + number.mantissa_bits - 1);
  return halvings <= 3 ? halvings : 0;
}

StoredScale encode_scale(const QuantSpec& spec, float scale) {
  if (spec.scale != ScaleFormat::kF16) return encode_scale(spec.scale, scale);
  const int halvings = halvings_of_scale(spec);
  const float step = std::ldexp(0x1p-24F, halvings);
  const float coarser = std::ldexp(0x1p-14F, halvings);  // above this, float16's steps are as wide or wider
  if (halvings == 0 || scale == 0 || scale >= coarser) return encode_scale(spec.scale, scale);
  const float steps = std::nearbyint(scale / step);
  StoredScale stored = encode_scale(spec.scale, std::max(steps, 1.0F) * step);
  stored.saturated = steps == 0;
  return stored;
}

float stored_scale(const QuantSpec& spec, float scale) {
  return decode_scale(spec.scale, encode_scale(spec, scale).pattern);
}

QuantizedTensor quantize_with_scales(const QuantSpec& spec, std::span<const float> values,
                                     std::span<const std::uint64_t> shape, const GivenScales& given,
                                     int threads) {
  QuantizedTensor tensor{
      .spec = spec.to_string(), .shape = {shape.begin(), shape.end()}, .encoding = spec.encoding(shape)};
  tensor.layout = encoded_layout(tensor.encoding, shape).take("quantizing to " + tensor.spec);
  check(spec, values, shape, given, tensor.layout);
  const CodeGrid grid = make_code_grid(*spec.number, spec.range, spec.round);
  store_scales(spec, grid, given.scales, tensor);
  store_zeros(spec, given.zeros, tensor);
  const auto [rows, cols] = tensor.layout.matrix;
  tensor.codes.resize(tensor.layout.codes_bytes);
  std::atomic<bool> finite{true};
  const std::uint64_t a_piece = std::max<std::uint64_t>(1, kPieceValues / std::max<std::uint64_t>(1, cols));
  parallel_for(rows, a_piece, threads, [&, columns = cols](std::size_t begin, std::size_t end) {
    std::vector<std::uint8_t> codes(columns);
    for (std::uint64_t row = begin; row < end; ++row) {
      std::uint64_t block = tensor.layout.first_block(row);
      for (std::uint64_t col = 0; col < columns; col += tensor.encoding.block_cols, ++block) {
        const std::uint64_t count = std::min(columns - col, tensor.encoding.block_cols);
        const float* x = values.data() + row * columns + col;
        const float s = given.scales[block], z = given.zeros.empty() ? 0.0F : given.zeros[block];
        if (loops().absmax_bits(x, count) >= kInfinityBits) finite = false;
        if (spec.zero == ZeroPoint::kMinimum) {
          encode_above_minimum(grid, {x, count}, s, z, row * columns + col, codes.data() + col);
        } else if (s > 0) {
          loops().encode(grid, x, count, s, z, row * columns + col, codes.data() + col);
        } else {
          std::memset(codes.data() + col, grid.zero_pattern(z), count);
        }
      }
      pack_codes(codes, spec.number->bits,
                 reinterpret_cast<std::uint8_t*>(tensor.codes.data()) + row * tensor.layout.row_bytes);
    }
  });
  if (!finite) refuse(spec, "the tensor holds inf or NaN; only finite values can be quantized");
  return tensor;
}

}  // namespace crumb

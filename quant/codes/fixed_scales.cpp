#include "quant/codes/fixed_scales.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "formats/number/packing.h"
#include "quant/codes/given_scales.h"
#include "quant/loops/loops.h"
#include "quant/quantizer.h"

namespace crumb {

FixedScales::FixedScales(const QuantSpec& spec, std::span<const float> values,
                         std::span<const std::uint64_t> shape, std::string_view name, int threads)
    : spec_(spec),
      // Codebooks are learned with codes.
      tensor_(
          quantize(spec, values, shape, {.threads = threads, .name = name, .codes = spec.number->learned})) {
  tensor_.codes.resize(tensor_.layout.codes_bytes);
  const RowDecoder decoder(tensor_.unchecked_view());
  set_grid(decoder.grid());
  largest_ = spec.number->largest_value(spec.range);
  for (std::uint64_t block = 0; block < tensor_.layout.blocks(); ++block) {
    scales_.push_back(decoder.scale(block));
    zeros_.push_back(decoder.zero_point(block));
  }
}

void FixedScales::set_scale(std::uint64_t block, float scale) {
  const Encoding& encoding = tensor_.encoding;
  const float multiplier = std::ldexp(1.0F, encoding.scale_exponent);
  const float of_tensor = tensor_.unchecked_view().tensor_scale();
  const std::uint32_t pattern = encode_scale(spec_, scale / of_tensor / multiplier).pattern;
  scales_[block] = decode_scale(encoding.scale, pattern) * multiplier * of_tensor;
  const std::size_t bytes = scale_format_row(encoding.scale).bytes;
  std::memcpy(tensor_.scales.data() + tensor_.layout.slot(block) * bytes, &pattern, bytes);
}

void FixedScales::set_codebook(std::span<const float> values) {
  const std::span<const std::byte> bytes = std::as_bytes(values);
  tensor_.codebook.assign(bytes.begin(), bytes.end());
  set_grid(RowDecoder(tensor_.unchecked_view()).grid());
}

void FixedScales::set_grid(CodeGrid grid) {
  nearest_ = grid_ = std::move(grid);
  grid_.round = spec_.round;
  if (!spec_.round.is_nearest()) nearest_.round = {};
}

void FixedScales::round_run(std::uint64_t row, std::uint64_t column, std::span<const float> x,
                            float* made) const {
  const std::uint64_t block = block_of(row, column), index = row * columns() + column;
  const float scale = scales_[block], zero = zeros_[block];
  std::array<std::uint8_t, 256> codes;
  for (std::size_t begin = 0; begin < x.size(); begin += codes.size()) {
    const std::size_t count = std::min(codes.size(), x.size() - begin);
    if (scale > 0)
      loops().encode(grid_, x.data() + begin, count, scale, zero, index + begin, codes.data());
    else
      std::fill_n(codes.begin(), count, grid_.zero_pattern(zero));
    loops().decode(grid_, codes.data(), count, scale, zero, made + begin);
  }
}

float FixedScales::reaching(float least, float greatest) const {
  if (spec_.zero == ZeroPoint::kNone) return std::max(-least, greatest) / largest_;
  const NumberFormat& number = *spec_.number;
  const auto levels = static_cast<float>(number.greatest_code(spec_.range) - number.least_code(spec_.range));
  return (std::max(greatest, 0.0F) - std::min(least, 0.0F)) / levels;
}

QuantizedTensor FixedScales::with_codes(std::span<const std::uint8_t> codes) const {
  QuantizedTensor made = tensor_;
  const auto [rows, columns] = made.layout.matrix;
  auto* bytes = reinterpret_cast<std::uint8_t*>(made.codes.data());
  for (std::uint64_t row = 0; row < rows; ++row)
    pack_codes(codes.subspan(row * columns, columns), made.encoding.number->bits,
               bytes + row * made.layout.row_bytes);
  return made;
}

}  // namespace crumb

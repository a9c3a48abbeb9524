#include "quant/fixed_scales.h"

#include <cmath>
#include <cstring>

#include "formats/number/packing.h"
#include "quant/given_scales.h"
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
  grid_ = decoder.grid();
  grid_.round = spec.round;
  largest_ = spec.number->largest_value(spec.range);
  for (std::uint64_t block = 0; block < tensor_.layout.blocks(); ++block) {
    scales_.push_back(decoder.scale(block));
    zeros_.push_back(decoder.zero_point(block));
  }
}

void FixedScales::set_scale(std::uint64_t block, float scale) {
  const Encoding& encoding = tensor_.encoding;
  const float multiplier = std::ldexp(1.0F, encoding.scale_exponent);
  const std::uint32_t pattern = encode_scale(spec_, scale / tensor_.tensor_scale / multiplier).pattern;
  scales_[block] = decode_scale(encoding.scale, pattern) * multiplier * tensor_.tensor_scale;
  const std::size_t bytes = scale_format_row(encoding.scale).bytes;
  std::memcpy(tensor_.scales.data() + tensor_.layout.slot(block) * bytes, &pattern, bytes);
}

void FixedScales::set_codebook(std::span<const float> values) {
  const std::span<const std::byte> bytes = std::as_bytes(values);
  tensor_.codebook.assign(bytes.begin(), bytes.end());
  grid_ = RowDecoder(tensor_.unchecked_view()).grid();
  grid_.round = spec_.round;
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

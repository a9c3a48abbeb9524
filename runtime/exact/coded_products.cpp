#include "runtime/exact/coded_products.h"

#include <vector>

#include "base/processor.h"
#include "formats/number/packing.h"

namespace crumb::runtime::exact {

ByteValues byte_values(const float* values) {
  for (const bool is_signed : {true, false}) {
    const float offset = values[0];
    bool fits = offset == 0 || offset == 0.5F;
    for (int code = 0; code < 256; ++code)
      fits = fits && values[code] == static_cast<float>(is_signed && code > 127 ? code - 256 : code) + offset;
    if (fits) return {.is_integer = true, .is_signed = is_signed, .offset = offset};
  }
  return {};
}

bool takes_codes(int bits, const float* values) {
  if (!may_use(Isa::kAvx2)) return false;
  if (bits == 8) return byte_values(values).is_integer;
  return bits <= (may_use(Isa::kAvx512) ? 6 : 4);
}

void multiply_codes(const Products& products, const CodedRows& w) {
  if (may_use(Isa::kAvx512)) return multiply_codes_avx512(products, w);
  multiply_codes_avx2(products, w);
}

void multiply_codes_ref(const Products& p, const CodedRows& w) {
  std::vector<std::uint8_t> codes(p.terms);
  std::vector<float> row(p.terms);
  const std::size_t blocks = (p.terms + w.block - 1) / w.block;
  for (std::size_t n = 0; n < p.columns; ++n) {
    unpack_codes_ref(w.codes + n * w.row_bytes, w.bits, 0, codes);
    for (std::size_t k = 0; k < p.terms; ++k) {
      const std::size_t block = n * blocks + k / w.block;
      const float value = w.values[codes[k]], zero = w.zeros ? w.zeros[block] : 0.0F;
      row[k] = coded_value(value, w.scales[block], zero, w.adds_zeros);
    }
    for (std::size_t m = 0; m < p.rows; ++m)
      p.y[m * p.y_row + n * p.y_column] = dot_ref(p.x + m * p.x_stride, row.data(), p.terms);
  }
}

}  // namespace crumb::runtime::exact

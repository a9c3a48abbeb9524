#include "runtime/exact/coded_products.h"

#include <bit>
#include <cmath>
#include <vector>

#include "base/processor.h"
#include "formats/number/packing.h"

namespace crumb::runtime::exact {

namespace {

constexpr int kLeastTabled = 120;  // fewer magnitudes by formula are no float format

bool are_same(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

/// The number of magnitudes that the formula gives with either sign.
int magnitudes_by(const ByteValues& made, const float* values) {
  for (int m = 0; m < 128; ++m) {
    const float value = m < 1 << made.mantissa
                            ? static_cast<float>(m) * made.least
                            : std::bit_cast<float>((m << (23 - made.mantissa)) + made.exponent);
    if (!are_same(value, values[m]) || !are_same(-value, values[128 + m])) return m;
  }
  return 128;
}

}  // namespace

ByteValues byte_values(const float* values) {
  using Kind = ByteValues::Kind;
  for (const Kind kind : {Kind::kSigned, Kind::kUnsigned}) {
    const float offset = values[0];
    bool fits = offset == 0 || offset == 0.5F;
    for (int code = 0; code < 256; ++code)
      fits = fits && values[code] ==
                         static_cast<float>(kind == Kind::kSigned && code > 127 ? code - 256 : code) + offset;
    if (fits) return {.kind = kind, .offset = offset};
  }
  constexpr int kFraction = 23, kBias = 127;
  const float least = values[1];
  if (!std::isnormal(least) || least <= 0 || !are_same(least, std::ldexp(1.0F, std::ilogb(least)))) return {};
  for (int mantissa = 1; mantissa <= 6; ++mantissa) {
    ByteValues made{.kind = Kind::kFloat, .mantissa = mantissa, .least = least};
    // The least normal magnitude, 2^mantissa, stands for 2^mantissa times the least value.
    made.exponent = ((kBias + std::ilogb(least) + mantissa - 1) << kFraction);
    made.tabled = magnitudes_by(made, values);
    if (made.tabled >= kLeastTabled) return made;
  }
  return {};
}

bool takes_codes(int bits, const float* values) {
  if (!may_use(Isa::kAvx2)) return false;
  if (bits == 8) return byte_values(values).kind != ByteValues::Kind::kTable;
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

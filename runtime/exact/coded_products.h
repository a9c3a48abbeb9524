// Products of a few float rows with a matrix in codes, rows of them packed one behind the other
// (formats/number/packing.h). Codes are unpacked, looked up, scaled and multiplied in registers; no row of
// floats is written. The bits are those of products.h on the decoded values.
//
// A value is (values[code] - zero) * scale, or values[code] * scale + zero where zeros are minima, every step
// rounded to float32 (formats/number/encoding.h): so a block's values are looked up in a table that was
// scaled once for the block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/exact/products.h"

namespace crumb::runtime::exact {

/// How the values of codes of eight bits follow from them.
struct ByteValues {
  enum class Kind : std::uint8_t { kTable, kSigned, kUnsigned, kFloat };
  Kind kind = Kind::kTable;
  /// Of kSigned and kUnsigned: values[code] is the code, as the type has it, plus the offset.
  float offset = 0;
  /// Of kFloat: the highest bit is the sign, and a magnitude m below `tabled` is, with b bits of mantissa,
  /// m * least where m < 2^b, else the float32 whose bits are (m << (23 - b)) + exponent. Others (infinities,
  /// NaN) are in the table alone.
  int mantissa = 0;
  float least = 0;
  std::int32_t exponent = 0, tabled = 128;
};
ByteValues byte_values(const float* values);

/// A value as kernels decode it: `value` is that of the code.
inline float coded_value(float value, float scale, float zero, bool adds_zero) {
  if (!adds_zero) return (value - zero) * scale;
  const float scaled = value * scale;
  return scaled + zero;
}

/// What takes Products::w's place: `columns` rows of `terms` codes.
struct CodedRows {
  const std::uint8_t* codes = nullptr;  ///< of row 0
  const std::uint8_t* end = nullptr;    ///< of the memory that may be read: at least the end of the last row
  std::size_t row_bytes = 0;
  int bits = 0;
  const float* values = nullptr;  ///< by code, 2^bits of them
  ByteValues bytes = {};          ///< byte_values(values), of eight bits
  std::size_t block = 0;          ///< terms that share a scale: a multiple of 16, or at least `terms`
  const float* scales = nullptr;  ///< [columns, blocks in a row]
  const float* zeros = nullptr;   ///< the same; null where all are 0
  bool adds_zeros = false;        ///< they are minima
};

/// Rows [first, first + count) of x alone.
inline Products some_rows_of(Products products, std::size_t first, std::size_t count) {
  products.rows = count;
  products.x += first * products.x_stride;
  products.y += first * products.y_row;
  return products;
}

/// Rows of x for which this is worth while.
inline constexpr std::size_t kFewRows = 4;

/// Whether a kernel of this processor takes such codes, by their width and the values of the codes.
bool takes_codes(int bits, const float* values);

/// products.y, on one thread. Preconditions: takes_codes, 1 <= products.rows <= kFewRows. What products says
/// of w does not count.
void multiply_codes(const Products& products, const CodedRows& w);

/// By the definition; kept for ever. It takes codes of one to eight bits.
void multiply_codes_ref(const Products& products, const CodedRows& w);

/// Precondition: may_use(Isa::kAvx2). Codes of one to four bits, and of eight.
void multiply_codes_avx2(const Products& products, const CodedRows& w);
/// Precondition: may_use(Isa::kAvx512). Codes of one to six bits, and of eight.
void multiply_codes_avx512(const Products& products, const CodedRows& w);

}  // namespace crumb::runtime::exact

// Rows of activations as bytes, as the promise `fast` takes them (fast_matrix.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/exact/products.h"

namespace crumb::runtime {

/// Row r of x is scales[r] * q[r], q being integers from -127 to 127.
struct ByteRows {
  std::size_t rows = 0, terms = 0;
  std::size_t stride = 0;          ///< from row to row of q: a multiple of kPadded
  std::size_t block = 0;           ///< terms whose sum sums has
  std::size_t blocks = 0;          ///< of a row; the last one may be shorter
  std::vector<std::int8_t> q;      ///< [rows, stride]; zeros behind the terms
  std::vector<std::int32_t> sums;  ///< [rows, blocks], of q
  std::vector<float> scales;       ///< [rows]

  static constexpr std::size_t kPadded = 64;

  const std::int8_t* row(std::size_t r) const { return q.data() + r * stride; }
  const std::int32_t* sums_of(std::size_t r) const { return sums.data() + r * blocks; }

  /// Makes it of products.x, on up to `threads` threads. Returns false where bytes cannot say a row: it holds
  /// infinities or NaN, or its largest magnitude is below 2^-100 but not zero; what is made is of no use
  /// then.
  bool make(const exact::Products& products, std::size_t terms_of_block, int threads);
};

/// One row of x: its largest magnitude as the bits of a float, NaN and infinity being those from 0x7F800000
/// on.
std::uint32_t largest_bits(const float* x, std::size_t count);
/// q[k] = x[k] * inverse, rounded to float32 and then to the nearest integer, ties to even. Precondition: the
/// integers are from -128 to 127.
void to_bytes(const float* x, float inverse, std::size_t count, std::int8_t* q);
/// sums[b] = the sum of block b of q.
void sum_blocks(const std::int8_t* q, std::size_t terms, std::size_t block, std::int32_t* sums);

/// The references, by the definition.
std::uint32_t largest_bits_ref(const float* x, std::size_t count);
void to_bytes_ref(const float* x, float inverse, std::size_t count, std::int8_t* q);
void sum_blocks_ref(const std::int8_t* q, std::size_t terms, std::size_t block, std::int32_t* sums);
/// Precondition: may_use(Isa::kAvx2).
std::uint32_t largest_bits_avx2(const float* x, std::size_t count);
void to_bytes_avx2(const float* x, float inverse, std::size_t count, std::int8_t* q);
void sum_blocks_avx2(const std::int8_t* q, std::size_t terms, std::size_t block, std::int32_t* sums);

}  // namespace crumb::runtime

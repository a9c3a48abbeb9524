#include "runtime/exact/products.h"

#include <algorithm>
#include <cmath>

#include "base/processor.h"
#include "base/threads/parallel.h"
#include "runtime/exact/many_rows.h"

namespace crumb::runtime::exact {
namespace {

constexpr std::size_t kWork = std::size_t{1} << 18;  // multiplications that are worth a thread
constexpr std::size_t kTiles = 12;                   // whole tiles of every kernel
constexpr std::size_t kPieces = 8;  // of a thread: more share unevenly busy processors, fewer share caches

}  // namespace

float dot_ref(const float* x, const float* w, std::size_t terms) {
  float partial[kPartialSums] = {};
  for (std::size_t k = 0; k < terms; ++k)
    partial[k % kPartialSums] = std::fma(x[k], w[k], partial[k % kPartialSums]);
  for (std::size_t k = terms; k % kPartialSums != 0; ++k) partial[k % kPartialSums] += 0.0F;
  return fold(partial);
}

void multiply_ref(const Products& p) {
  for (std::size_t m = 0; m < p.rows; ++m) {
    for (std::size_t n = 0; n < p.columns; ++n)
      p.y[m * p.y_row + n * p.y_column] = dot_ref(p.x + m * p.x_stride, p.w + n * p.w_stride, p.terms);
  }
}

void multiply(const Products& p, int threads) {
  static const auto kernel = may_use(Isa::kAvx512) ? multiply_avx512
                             : may_use(Isa::kAvx2) ? multiply_avx2
                                                   : multiply_ref;
  if (is_faster_for_rows(p)) {
    const auto write = [&](std::size_t first, std::size_t count, float* to, std::size_t stride) {
      rows_to_terms(p.w + first * p.w_stride, p.w_stride, count, p.terms, to, stride);
    };
    return multiply_many(p, write, threads);
  }
  const std::size_t work = p.rows * p.columns * p.terms;
  if (threads == 1 || work <= kWork) return kernel(p);
  // The longer side is divided among threads.
  const bool by_rows = p.rows >= p.columns;
  const std::size_t count = by_rows ? p.rows : p.columns;
  const auto workers = static_cast<std::size_t>(threads > 0 ? threads : default_threads());
  const std::size_t least =
      std::max(count * kWork / std::max<std::size_t>(work, 1), count / (workers * kPieces));
  parallel_for(count, (least / kTiles + 1) * kTiles, threads, [&](std::size_t begin, std::size_t end) {
    Products part = p;
    (by_rows ? part.rows : part.columns) = end - begin;
    (by_rows ? part.x : part.w) += begin * (by_rows ? p.x_stride : p.w_stride);
    part.y += begin * (by_rows ? p.y_row : p.y_column);
    kernel(part);
  });
}

}  // namespace crumb::runtime::exact

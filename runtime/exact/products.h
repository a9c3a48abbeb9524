// Products of float32 matrices whose bits depend on the numbers alone: not on threads, blocks, neighbours or
// the instruction set.
//
// A sum of products is sixteen partial sums: term k is added to partial sum k mod 16 by one fused
// multiply-add, from k = 0 on, each partial sum beginning with +0; terms are filled up with zeros to a
// multiple of sixteen. Then partial sum i takes i + 8, then i + 4, then i + 2, then 1.
#pragma once

#include <cstddef>

namespace crumb::runtime::exact {

inline constexpr std::size_t kPartialSums = 16;

/// y[m, n] = the sum over k of x[m, k] * w[n, k], for m < rows, n < columns, k < terms. Strides count floats
/// from row to row, and for y from element to element too. y overlaps neither x nor w.
struct Products {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t terms = 0;
  const float* x = nullptr;
  std::size_t x_stride = 0;
  const float* w = nullptr;
  std::size_t w_stride = 0;
  float* y = nullptr;
  std::size_t y_row = 0;
  std::size_t y_column = 1;
};

/// The references, by the definition.
float dot_ref(const float* x, const float* w, std::size_t terms);
void multiply_ref(const Products& products);

/// The fastest variant for this processor, on up to `threads` threads (0: as many as the machine has).
void multiply(const Products& products, int threads);

/// AVX2 and FMA, on one thread. Precondition: may_use(Isa::kAvx2).
void multiply_avx2(const Products& products);
/// AVX-512, on one thread. Precondition: may_use(Isa::kAvx512).
void multiply_avx512(const Products& products);

/// The sum of the partial sums, in the order above.
inline float fold(float* partial) {
  for (std::size_t half = kPartialSums / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) partial[i] += partial[i + half];
  }
  return partial[0];
}

/// The sum of f(0), ..., f(terms - 1) in the same order.
template <class F>
float sum_of(std::size_t terms, const F& f) {
  float partial[kPartialSums] = {};
  std::size_t k = 0;
  for (; k + kPartialSums <= terms; k += kPartialSums) {
    for (std::size_t i = 0; i < kPartialSums; ++i) partial[i] += f(k + i);
  }
  for (std::size_t i = 0; k + i < terms; ++i) partial[i] += f(k + i);
  return fold(partial);
}

}  // namespace crumb::runtime::exact

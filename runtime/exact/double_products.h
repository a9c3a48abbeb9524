// Products of matrices of doubles whose bits depend on the numbers alone: not on blocks, threads or the
// instruction set.
#pragma once

#include <cstddef>

namespace crumb::runtime::exact {

/// y[m, n] -= x[m, k] * w[k, n], for m < rows and n < columns: one fused multiply-add for each k, from 0 to
/// terms - 1. x is at x[m * x_row + k * x_term], w at w[k * w_row + n], y at y[m * y_row + n]. y overlaps
/// neither x nor w.
struct DoubleProducts {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t terms = 0;
  const double* x = nullptr;
  std::size_t x_row = 0;
  std::size_t x_term = 1;
  const double* w = nullptr;
  std::size_t w_row = 0;
  double* y = nullptr;
  std::size_t y_row = 0;
};

/// The reference, by the definition.
void subtract_products_ref(const DoubleProducts& products);

/// The fastest variant for this processor, on one thread.
void subtract_products(const DoubleProducts& products);

/// AVX2 and FMA. Precondition: may_use(Isa::kAvx2).
void subtract_products_avx2(const DoubleProducts& products);
/// AVX-512. Precondition: may_use(Isa::kAvx512).
void subtract_products_avx512(const DoubleProducts& products);

/// Calls tiles(n, columns, k, terms) for blocks of w that stay in the first cache: columns from n and terms
/// from k on. The terms of an element come in order.
template <class F>
void for_each_block(const DoubleProducts& p, std::size_t tile_columns, const F& tiles) {
  constexpr std::size_t kTerms = 128;
  for (std::size_t n = 0; n < p.columns; n += tile_columns)
    for (std::size_t k = 0; k < p.terms; k += kTerms)
      tiles(n, p.columns - n < tile_columns ? p.columns - n : tile_columns, k,
            p.terms - k < kTerms ? p.terms - k : kTerms);
}

}  // namespace crumb::runtime::exact

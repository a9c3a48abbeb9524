// Products of float32 matrices as products.h has them, of an operand whose terms lie apart: x[k] is a run of
// positions. So lie the windows of a convolution, and with a kernel of 1 x 1 the image itself. The bits are
// those of products.h.
//
// Vectors hold neighbouring positions. Partial sum i of a tile is finished before another begins (terms i, i
// + 16, i + 32, ...), so a tile is a block of registers as in any product of matrices, and sixteen of them
// are added up in the order of fold().
#pragma once

#include <cstddef>

namespace crumb::runtime::exact {

/// y[n, p] = the sum over k of x[k, p] * w[n, k], and bias[n] added to that; for n < outputs, p < positions,
/// k < terms. Strides count floats from term to term of x, from output to output of w and y. y overlaps
/// nothing else.
struct TermProducts {
  std::size_t outputs = 0;
  std::size_t positions = 0;
  std::size_t terms = 0;
  const float* x = nullptr;
  std::size_t x_stride = 0;
  const float* w = nullptr;
  std::size_t w_stride = 0;
  const float* bias = nullptr;  ///< null: none
  float* y = nullptr;
  std::size_t y_stride = 0;
};

/// By the definition; kept for ever.
void multiply_terms_ref(const TermProducts& products);

/// The fastest way that this processor has, on one thread.
void multiply_terms(const TermProducts& products);

/// AVX2 and FMA. Precondition: may_use(Isa::kAvx2).
void multiply_terms_avx2(const TermProducts& products);
/// AVX-512. Precondition: may_use(Isa::kAvx512).
void multiply_terms_avx512(const TermProducts& products);

}  // namespace crumb::runtime::exact

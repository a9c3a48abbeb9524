// Products of integer matrices: exact, so that whoever computes them gives the same.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crumb::runtime::integer {

/// Terms of a row are filled up with zeros to a multiple of this.
inline constexpr std::size_t kTerms = 16;
constexpr std::size_t padded(std::size_t terms) { return (terms + kTerms - 1) / kTerms * kTerms; }

/// y[n * y_stride + m] = the sum over k of x[m * terms + k] * w[n * terms + k], for m < rows, n < columns, k
/// < terms, a multiple of kTerms. No sum of some of the terms may pass 32 bits.
struct Products {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t terms = 0;
  const std::int16_t* x = nullptr;
  const std::int16_t* w = nullptr;
  std::int32_t* y = nullptr;
  std::size_t y_stride = 0;
};

/// The reference, by the definition.
void multiply_ref(const Products& products);

/// The fastest way that this processor has, on this thread.
void multiply(const Products& products);

/// Precondition: may_use(Isa::kAvx2).
void multiply_avx2(const Products& products);

}  // namespace crumb::runtime::integer

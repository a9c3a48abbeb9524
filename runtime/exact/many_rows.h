// Products of many rows of x by products.h, whose bits they have. Outputs are laid out a panel at a time so
// that vectors hold neighbouring ones (term_products.h), and a panel serves many rows: of each operand a tile
// reads half of what tiles of vectors of terms read, so rows longer than the first-level cache cost nothing.
#pragma once

#include <cstddef>
#include <functional>

#include "runtime/exact/products.h"

namespace crumb::runtime::exact {

/// Writes outputs [first, first + count) of w: term k of output first + i to
/// to[panel_row(k, terms) * stride + i]. What is behind `count`, up to a multiple of 16, may be written, too.
using WriteTerms = std::function<void(std::size_t first, std::size_t count, float* to, std::size_t stride)>;

/// Whether multiply_many() takes them: outputs of a row of y are neighbours, there are vectors for them, and
/// there is more than one term.
bool takes_many(const Products& products);

/// Whether it takes them, and faster than multiply_avx2() and multiply_avx512() take rows of floats, though
/// these are laid out first: rows are longer than the first-level cache is good for, or so short that adding
/// partial sums up takes long, and x has many.
bool is_faster_for_rows(const Products& products);

/// products.y; what products says of w does not count. `write` is called by several threads, with first a
/// multiple of 16 and count at most 64. Precondition: takes_many.
void multiply_many(const Products& products, const WriteTerms& write, int threads);

/// What `write` does where outputs are rows of floats, `row_stride` floats apart.
void rows_to_terms(const float* rows, std::size_t row_stride, std::size_t count, std::size_t terms, float* to,
                   std::size_t stride);

/// By the definition; kept for ever.
void rows_to_terms_ref(const float* rows, std::size_t row_stride, std::size_t count, std::size_t terms,
                       float* to, std::size_t stride);
/// Precondition: may_use(Isa::kAvx2).
void rows_to_terms_avx2(const float* rows, std::size_t row_stride, std::size_t count, std::size_t terms,
                        float* to, std::size_t stride);

}  // namespace crumb::runtime::exact

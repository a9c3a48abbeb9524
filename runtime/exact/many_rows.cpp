#include "runtime/exact/many_rows.h"

#include <algorithm>
#include <vector>

#include "base/processor.h"
#include "base/threads/parallel.h"
#include "runtime/exact/term_products.h"
#include "runtime/scratch.h"

namespace crumb::runtime::exact {
namespace {

constexpr std::size_t kPacked = std::size_t{1} << 21;  // floats of x that are packed at a time
constexpr std::size_t kPackedRows = 48;                // together: whole tiles of term_products.h
constexpr std::size_t kMostPackedRows = 5 * kPackedRows;
constexpr std::size_t kPanel = std::size_t{1} << 18;  // floats of a panel, which the second-level cache holds
constexpr std::size_t kLeastOutputs = 16, kMostOutputs = 64;  // of a panel: vectors of the longest tile
constexpr std::size_t kWorthAThread = std::size_t{1} << 18;   // multiplications
constexpr std::size_t kShortRow = 128, kLongRow = 1536;       // terms: measured on Zen 5, by both sets

/// Outputs of a panel.
std::size_t outputs_together(std::size_t terms) {
  return std::clamp(kPanel / terms / kLeastOutputs * kLeastOutputs, kLeastOutputs, kMostOutputs);
}

/// Some rows of x in the order in which tiles read them, kPackedRows by kPackedRows.
struct PackedX {
  Products products;  ///< of these rows
  float* packed;

  std::size_t parts() const { return (products.rows + kPackedRows - 1) / kPackedRows; }
  std::size_t rows_of(std::size_t part) const {
    return std::min(kPackedRows, products.rows - part * kPackedRows);
  }
  const float* x_of(std::size_t part) const { return products.x + part * kPackedRows * products.x_stride; }
  float* packed_of(std::size_t part) const { return packed + part * kPackedRows * products.terms; }
  void pack(std::size_t part) const {
    pack_terms(x_of(part), products.x_stride, rows_of(part), products.terms, packed_of(part));
  }
  /// Outputs [n, n + count), whose terms are in the panel.
  void multiply(std::size_t part, const float* panel, const std::size_t* offsets, std::size_t stride,
                std::size_t n, std::size_t count) const {
    multiply_terms({.outputs = rows_of(part),
                    .positions = count,
                    .terms = products.terms,
                    .x = panel,
                    .x_offsets = offsets,
                    .x_has_room = count < stride,
                    .w = x_of(part),
                    .w_stride = products.x_stride,
                    .packed = packed_of(part),
                    .y = products.y + part * kPackedRows * products.y_row + n,
                    .y_stride = products.y_row});
  }
};

}  // namespace

bool takes_many(const Products& p) {
  return p.y_column == 1 && p.terms > 1 && p.columns > 0 && may_use(Isa::kAvx2);
}

bool is_faster_for_rows(const Products& p) {
  const bool is_long = p.terms >= kLongRow, is_short = p.terms <= kShortRow;
  return p.rows >= kPackedRows && p.columns >= kMostOutputs && (is_long || is_short) && takes_many(p);
}

void multiply_many(const Products& p, const WriteTerms& write, int threads) {
  const std::size_t stride = outputs_together(p.terms), panels = (p.columns + stride - 1) / stride;
  const std::size_t most =
      std::clamp(kPacked / p.terms / kPackedRows * kPackedRows, kPackedRows, kMostPackedRows);
  std::vector<std::size_t> offsets(p.terms);
  for (std::size_t k = 0; k < p.terms; ++k)
    offsets[place_of_term(k, p.terms)] = panel_row(k, p.terms) * stride;
  Scratch memory;
  for (std::size_t r = 0; r < p.rows; r += most) {
    PackedX x{.products = p, .packed = memory.of(std::min(most, p.rows - r) * p.terms)};
    x.products.rows = std::min(most, p.rows - r);
    x.products.x += r * p.x_stride;
    x.products.y += r * p.y_row;
    parallel_for(x.parts(), 1 + kWorthAThread / (kPackedRows * p.terms), threads,
                 [&](std::size_t begin, std::size_t end) {
                   for (std::size_t i = begin; i < end; ++i) x.pack(i);
                 });
    const std::size_t piece = 1 + kWorthAThread / (x.products.rows * p.terms * stride);
    parallel_for(panels, piece, threads, [&](std::size_t begin, std::size_t end) {
      thread_local Scratch of_panel;
      float* const panel = of_panel.of(panel_rows(p.terms) * stride);
      for (std::size_t n = begin * stride; n < std::min(p.columns, end * stride); n += stride) {
        const std::size_t count = std::min(stride, p.columns - n);
        write(n, count, panel, stride);
        for (std::size_t i = 0; i < x.parts(); ++i) x.multiply(i, panel, offsets.data(), stride, n, count);
      }
    });
  }
}

void rows_to_terms_ref(const float* rows, std::size_t row_stride, std::size_t count, std::size_t terms,
                       float* to, std::size_t stride) {
  for (std::size_t k = 0; k < terms; ++k)
    for (std::size_t i = 0; i < count; ++i) to[panel_row(k, terms) * stride + i] = rows[i * row_stride + k];
}

void rows_to_terms(const float* rows, std::size_t row_stride, std::size_t count, std::size_t terms, float* to,
                   std::size_t stride) {
  if (may_use(Isa::kAvx2)) return rows_to_terms_avx2(rows, row_stride, count, terms, to, stride);
  rows_to_terms_ref(rows, row_stride, count, terms, to, stride);
}

}  // namespace crumb::runtime::exact

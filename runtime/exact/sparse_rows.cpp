#include "runtime/exact/sparse_rows.h"

#include <algorithm>
#include <cmath>

#include "base/processor.h"
#include "base/threads/parallel.h"

namespace crumb::runtime::exact {
namespace {

constexpr std::size_t kSparseWork = std::size_t{1} << 16;  // additions that are worth a thread

bool is_finite(const float* x, std::size_t count) {
  return std::all_of(x, x + count, [](float value) { return std::isfinite(value); });
}

}  // namespace

SparseRows::SparseRows(std::size_t rows, std::size_t terms, std::span<const Placed> elements)
    : terms_(terms), begins_(rows + 1) {
  for (const Placed& one : elements) ++begins_[one.row + 1];
  for (std::size_t i = 0; i < rows; ++i) begins_[i + 1] += begins_[i];
  elements_.resize(elements.size());
  std::vector<std::size_t> next(begins_.begin(), begins_.end() - 1);
  for (const Placed& one : elements)
    elements_[next[one.row]++] = {static_cast<std::uint32_t>(one.term), one.value};
  for (std::size_t i = 0; i < rows; ++i)
    std::sort(elements_.begin() + static_cast<std::ptrdiff_t>(begins_[i]),
              elements_.begin() + static_cast<std::ptrdiff_t>(begins_[i + 1]),
              [](const SparseElement& a, const SparseElement& b) { return a.term < b.term; });
}

void SparseRows::values(std::size_t row, std::span<float> to) const {
  std::ranges::fill(to, 0.0F);
  for (const SparseElement& element : this->row(row)) to[element.term] = element.value;
}

void SparseRows::multiply(const Products& product, int threads) const {
  static const auto kernel = may_use(Isa::kAvx2) ? sparse_row_avx2 : sparse_row_portable;
  const std::size_t rows = begins_.size() - 1;
  if (rows == 0 || product.rows == 0) return;
  const std::size_t tiles = (product.rows + kSparseLanes - 1) / kSparseLanes;
  const auto workers = static_cast<std::size_t>(threads > 0 ? threads : default_threads());
  const std::size_t parts = tiles >= workers ? 1 : workers;
  const std::size_t work = (elements_.size() + rows) * kSparseLanes / parts;
  parallel_for(tiles * parts, std::max<std::size_t>(kSparseWork / (work + 1), 1), threads,
               [&](std::size_t begin, std::size_t end) {
                 std::vector<float> turned;
                 for (std::size_t at = begin; at < end; ++at) {
                   const std::size_t first = at / parts * kSparseLanes, part = at % parts;
                   const std::size_t lanes = std::min(kSparseLanes, product.rows - first);
                   const float* x = product.x + first * product.x_stride;
                   float* const y = product.y + first * product.y_row;
                   if (lanes > 1) {
                     turned.assign(terms_ * kSparseLanes, 0.0F);
                     for (std::size_t lane = 0; lane < lanes; ++lane)
                       for (std::size_t k = 0; k < terms_; ++k)
                         turned[k * kSparseLanes + lane] = x[lane * product.x_stride + k];
                     x = turned.data();
                   }
                   for (std::size_t n = rows * part / parts; n < rows * (part + 1) / parts; ++n)
                     kernel(row(n), x, lanes, y + n * product.y_column, product.y_row);
                 }
               });
  // Zeros count beside what is infinite or no number.
  std::vector<float> whole(terms_);
  for (std::size_t m = 0; m < product.rows; ++m) {
    const float* const x = product.x + m * product.x_stride;
    if (is_finite(x, terms_)) continue;
    for (std::size_t n = 0; n < rows; ++n) {
      values(n, whole);
      product.y[m * product.y_row + n * product.y_column] = dot_ref(x, whole.data(), terms_);
    }
  }
}

}  // namespace crumb::runtime::exact

#include "runtime/exact/sparse_rows.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/processor.h"
#include "base/threads/parallel.h"

namespace crumb::runtime::exact {
namespace {

constexpr std::size_t kSparseWork = std::size_t{1} << 16;  // additions that are worth a thread

/// Outputs that are copied to their final positions together: the loops give those of one row of x next to
/// each other.
constexpr std::size_t kOutputs = 64;

bool is_finite(const float* x, std::size_t count) {
  return std::all_of(x, x + count, [](float value) { return std::isfinite(value); });
}

}  // namespace

SparseRows::SparseRows(std::size_t rows, std::size_t terms, std::vector<Placed> elements)
    : terms_(terms), begins_(rows + 1) {
  std::ranges::sort(elements, {},
                    [](const Placed& one) { return std::tuple(one.row, one.term % kPartialSums, one.term); });
  auto next = elements.begin();
  for (std::size_t i = 0; i < rows; ++i) {
    std::uint8_t place_of[kPartialSums] = {}, places = 0;
    bool is_there[kPartialSums] = {};
    for (; next != elements.end() && next->row == i; ++next) {
      const std::size_t partial = next->term % kPartialSums;
      if (!is_there[partial]) {
        is_there[partial] = true;
        place_of[partial] = places++;
        sizes_.push_back(0);
      }
      ++sizes_.back();
      elements_.push_back({static_cast<std::uint32_t>(next->term), next->value});
    }
    // Which of two partial sums is added to the other changes no bit; the one with the lower index always
    // exists.
    for (std::size_t half = kPartialSums / 2; half > 0; half /= 2)
      for (std::size_t k = 0; k < half; ++k) {
        if (!is_there[k + half]) continue;
        const std::uint8_t other = place_of[k + half];
        if (is_there[k]) folds_.push_back({std::min(place_of[k], other), std::max(place_of[k], other)});
        place_of[k] = is_there[k] ? std::min(place_of[k], other) : other;
        is_there[k] = true;
      }
    begins_[i + 1] = {elements_.size(), sizes_.size(), folds_.size()};
  }
}

SparseRow SparseRows::row(std::size_t i) const {
  const Begin &from = begins_[i], &to = begins_[i + 1];
  return {.elements = std::span(elements_).subspan(from.element, to.element - from.element),
          .sizes = std::span(sizes_).subspan(from.size, to.size - from.size),
          .folds = std::span(folds_).subspan(from.fold, to.fold - from.fold)};
}

void SparseRows::values(std::size_t row, std::span<float> to) const {
  std::ranges::fill(to, 0.0F);
  for (const SparseElement& element : this->row(row).elements) to[element.term] = element.value;
}

void SparseRows::multiply(const Products& product, int threads) const {
  static const auto kernel = may_use(Isa::kAvx2) ? sparse_row_avx2 : sparse_row_portable;
  const std::size_t rows = this->rows();
  if (rows == 0 || product.rows == 0) return;
  const std::size_t tiles = (product.rows + kSparseLanes - 1) / kSparseLanes;
  const auto workers = static_cast<std::size_t>(threads > 0 ? threads : default_threads());
  const std::size_t parts = tiles >= workers ? 1 : workers;
  const std::size_t work = (elements_.size() + rows) * kSparseLanes / parts;
  parallel_for(tiles * parts, std::max<std::size_t>(kSparseWork / (work + 1), 1), threads,
               [&](std::size_t begin, std::size_t end) {
                 std::vector<float> turned;
                 float made[kSparseLanes * kOutputs];
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
                   const std::size_t end_of_part = rows * (part + 1) / parts;
                   for (std::size_t n = rows * part / parts; n < end_of_part;) {
                     const std::size_t count = std::min(kOutputs, end_of_part - n);
                     for (std::size_t i = 0; i < count; ++i) kernel(row(n + i), x, lanes, made + i, kOutputs);
                     for (std::size_t lane = 0; lane < lanes; ++lane)
                       for (std::size_t i = 0; i < count; ++i)
                         y[lane * product.y_row + (n + i) * product.y_column] = made[lane * kOutputs + i];
                     n += count;
                   }
                 }
               });
  // A zero times an infinity or NaN is NaN: zeros count there.
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

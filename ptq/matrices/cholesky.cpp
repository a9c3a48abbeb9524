#include "ptq/matrices/cholesky.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/threads/parallel.h"
#include "runtime/exact/double_products.h"

namespace crumb::ptq {
namespace {

using runtime::exact::subtract_products;

constexpr std::size_t kBlock = 64;   // rows that are factored before the others are updated
constexpr std::size_t kStrip = 8;    // the same for rows within a block
constexpr std::size_t kPiece = 192;  // columns of one thread

}  // namespace

std::optional<Cholesky> Cholesky::of(std::vector<double> matrix, std::size_t size, int threads) {
  Cholesky made(std::move(matrix), size);
  if (!made.factor(threads)) return std::nullopt;
  return made;
}

bool Cholesky::factor(int threads) {
  for (std::size_t begin = 0; begin < size_; begin += kBlock) {
    const std::size_t end = std::min(size_, begin + kBlock);
    if (!factor_diagonal(begin, end)) return false;
    parallel_for(size_ - end, kPiece, threads, [&](std::size_t first, std::size_t last) {
      solve_right_of(begin, end, end + first, end + last);
    });
    const std::size_t blocks = (size_ - end + kBlock - 1) / kBlock;
    parallel_for(blocks, 1, threads, [&](std::size_t block, std::size_t) {
      const std::size_t row = end + block * kBlock;
      subtract(begin, end - begin, row, std::min(kBlock, size_ - row), row, size_);
    });
  }
  return true;
}

/// Factors rows and columns begin to end, after the subtraction of all rows before.
bool Cholesky::factor_diagonal(std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    const double pivot = *at(i, i);
    if (!(pivot > 0) || !std::isfinite(pivot)) return false;
    const double root = std::sqrt(pivot);
    *at(i, i) = root;
    for (std::size_t j = i + 1; j < end; ++j) *at(i, j) /= root;
    for (std::size_t below = i + 1; below < end; ++below)
      for (std::size_t j = below; j < end; ++j) *at(below, j) -= *at(i, below) * *at(i, j);
  }
  return true;
}

/// Subtracts, from `rows` rows at `row` and columns first to last, the products of U's `terms` rows at `from`
/// (transposed) with themselves.
void Cholesky::subtract(std::size_t from, std::size_t terms, std::size_t row, std::size_t rows,
                        std::size_t first, std::size_t last) {
  subtract_products({.rows = rows,
                     .columns = last - first,
                     .terms = terms,
                     .x = at(from, row),
                     .x_row = 1,
                     .x_term = size_,
                     .w = at(from, first),
                     .w_row = size_,
                     .y = at(row, first),
                     .y_row = size_});
}

/// Computes columns first to last of rows begin to end, right of their diagonal block.
void Cholesky::solve_right_of(std::size_t begin, std::size_t end, std::size_t first, std::size_t last) {
  for (std::size_t strip = begin; strip < end; strip += kStrip) {
    const std::size_t strip_end = std::min(end, strip + kStrip);
    subtract(begin, strip - begin, strip, strip_end - strip, first, last);
    for (std::size_t i = strip; i < strip_end; ++i) {
      subtract(strip, i - strip, i, 1, first, last);
      const double own = *at(i, i);
      for (std::size_t j = first; j < last; ++j) *at(i, j) /= own;
    }
  }
}

void Cholesky::solve(double* rows, std::size_t count) const {
  if (count == 0) return;
  const auto subtract = [&](std::size_t from, std::size_t terms, const double* w, std::size_t w_row,
                            std::size_t to, std::size_t columns) {
    subtract_products({.rows = count,
                       .columns = columns,
                       .terms = terms,
                       .x = rows + from,
                       .x_row = size_,
                       .w = w,
                       .w_row = w_row,
                       .y = rows + to,
                       .y_row = size_});
  };
  // Z U = B, forwards.
  for (std::size_t begin = 0; begin < size_; begin += kBlock) {
    const std::size_t end = std::min(size_, begin + kBlock);
    subtract(0, begin, at(0, begin), size_, begin, end - begin);
    for (std::size_t strip = begin; strip < end; strip += kStrip) {
      const std::size_t strip_end = std::min(end, strip + kStrip);
      subtract(begin, strip - begin, at(begin, strip), size_, strip, strip_end - strip);
      for (std::size_t row = 0; row < count; ++row) {
        double* const z = rows + row * size_;
        for (std::size_t i = strip; i < strip_end; ++i) {
          z[i] /= *at(i, i);
          for (std::size_t j = i + 1; j < strip_end; ++j) z[j] -= z[i] * *at(i, j);
        }
      }
    }
  }
  // X U^T = Z, backwards; blocks of U are transposed first.
  std::vector<double> transposed(kBlock * kBlock);
  const auto transpose = [&](std::size_t first_row, std::size_t last_row, std::size_t first,
                             std::size_t last) {
    for (std::size_t i = first_row; i < last_row; ++i)
      for (std::size_t k = first; k < last; ++k) transposed[(k - first) * kBlock + i - first_row] = *at(i, k);
  };
  for (std::size_t block = (size_ + kBlock - 1) / kBlock; block-- > 0;) {
    const std::size_t begin = block * kBlock, end = std::min(size_, begin + kBlock);
    transpose(begin, end, begin, end);
    for (std::size_t strip_end = end; strip_end > begin;) {
      const std::size_t strip = begin + (strip_end - begin - 1) / kStrip * kStrip;
      subtract(strip_end, end - strip_end, transposed.data() + (strip_end - begin) * kBlock + strip - begin,
               kBlock, strip, strip_end - strip);
      for (std::size_t row = 0; row < count; ++row) {
        double* const x = rows + row * size_;
        for (std::size_t i = strip_end; i-- > strip;) {
          double sum = x[i];
          for (std::size_t j = i + 1; j < strip_end; ++j) sum -= x[j] * *at(i, j);
          x[i] = sum / *at(i, i);
        }
      }
      strip_end = strip;
    }
    for (std::size_t to = 0; to < begin; to += kBlock) {
      transpose(to, to + kBlock, begin, end);
      subtract(begin, end - begin, transposed.data(), kBlock, to, kBlock);
    }
  }
}

}  // namespace crumb::ptq

#include "quant/agreement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/threads/parallel.h"
#include "quant/distortion.h"

namespace crumb {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

double dot(const float* a, const float* b, uint64_t width) {
  double sum = 0;
  for (uint64_t i = 0; i < width; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// Cosine from a dot product and two squared lengths.
double cosine(double product, double a_square, double b_square) {
  if (a_square == 0 || b_square == 0) return a_square == b_square ? 1 : 0;
  return std::clamp(product / std::sqrt(a_square * b_square), -1.0, 1.0);
}

/// Returns the squared length of every row. Checks size and values on the way.
std::vector<double> squares(std::span<const float> x, uint64_t rows, uint64_t width,
                            const std::string& side) {
  const bool fits = width == 0 ? x.empty() && rows == 0 : x.size() % width == 0 && x.size() / width == rows;
  if (!fits) {
    throw Error("agreement: " + side + " has " + std::to_string(x.size()) + " values, expected " +
                std::to_string(rows) + " rows of " + std::to_string(width));
  }
  std::vector<double> result(rows);
  for (uint64_t r = 0; r < rows; ++r) {
    const float* row = x.data() + r * width;
    if (!std::all_of(row, row + width, [](float v) { return std::isfinite(v); })) {
      throw Error("agreement: row " + std::to_string(r) + " of " + side +
                  " holds inf or NaN; expected finite values");
    }
    result[r] = dot(row, row, width);
  }
  return result;
}

/// Returns the cosine of every pair of rows i < j, in order of i, then j.
std::vector<double> pairwise(std::span<const float> x, const std::vector<double>& square, uint64_t width,
                             int threads) {
  const uint64_t rows = square.size();
  std::vector<double> result(rows * (rows - 1) / 2);  // unsigned arithmetic: 0 for no rows
  parallel_for(rows, 1, threads, [&](size_t begin, size_t end) {
    for (uint64_t i = begin; i < end; ++i) {
      double* out = result.data() + i * (2 * rows - i - 1) / 2;
      for (uint64_t j = i + 1; j < rows; ++j) {
        const double product = dot(x.data() + i * width, x.data() + j * width, width);
        *out++ = cosine(product, square[i], square[j]);
      }
    }
  });
  return result;
}

/// Returns ranks from 0; equal values share their average rank.
std::vector<double> ranks(std::span<const double> values) {
  std::vector<uint64_t> order(values.size());
  std::iota(order.begin(), order.end(), uint64_t{0});
  std::ranges::sort(order, [&](uint64_t i, uint64_t j) { return values[i] < values[j]; });
  std::vector<double> result(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) result[order[i]] = (static_cast<double>(begin + end) - 1) / 2;
    begin = end;
  }
  return result;
}

}  // namespace

double cosine(std::span<const float> a, std::span<const float> b) {
  return cosine(dot(a.data(), b.data(), a.size()), dot(a.data(), a.data(), a.size()),
                dot(b.data(), b.data(), b.size()));
}

double spearman(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) throw Error("spearman: the lists differ in length");
  const std::vector<double> a_ranks = ranks(a), b_ranks = ranks(b);
  const double middle = (static_cast<double>(a.size()) - 1) / 2;  // the mean rank, ties or not
  CompensatedSum ab, aa, bb;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a_ranks[i] - middle, y = b_ranks[i] - middle;
    ab.add(x * y);
    aa.add(x * x);
    bb.add(y * y);
  }
  if (aa.value() == 0 || bb.value() == 0) return kUndefined;
  return std::clamp(ab.value() / std::sqrt(aa.value() * bb.value()), -1.0, 1.0);
}

Agreement agreement(std::span<const float> a, std::span<const float> b, uint64_t rows, uint64_t width,
                    int threads) {
  const std::vector<double> a_squares = squares(a, rows, width, "the first");
  const std::vector<double> b_squares = squares(b, rows, width, "the second");
  Agreement result{.rows = rows, .width = width, .mean_cosine = kUndefined, .least_cosine = kUndefined};
  if (rows > 0) {
    CompensatedSum sum;
    result.least_cosine = 1;
    for (uint64_t r = 0; r < rows; ++r) {
      const double product = dot(a.data() + r * width, b.data() + r * width, width);
      const double each = cosine(product, a_squares[r], b_squares[r]);
      sum.add(each);
      result.least_cosine = std::min(result.least_cosine, each);
    }
    result.mean_cosine = sum.value() / static_cast<double>(rows);
  }
  result.spearman = spearman(pairwise(a, a_squares, width, threads), pairwise(b, b_squares, width, threads));
  return result;
}

}  // namespace crumb

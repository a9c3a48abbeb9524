#include "ptq/rounding/output_error.h"

#include <algorithm>
#include <numeric>

#include "base/threads/parallel.h"
#include "runtime/exact/products.h"

namespace crumb::ptq {
namespace {

constexpr std::size_t kRowsAtOnce = 48;

}  // namespace

double output_products(std::span<const float> a, const Eigen::MatrixXf& m, std::span<const float> b,
                       int threads) {
  const auto columns = static_cast<std::size_t>(m.rows()), count = a.size() / columns;
  std::vector<double> sums(count);
  parallel_for(count, kRowsAtOnce, threads, [&](std::size_t begin, std::size_t end) {
    std::vector<float> made((end - begin) * columns);
    runtime::exact::multiply({.rows = end - begin,
                              .columns = columns,
                              .terms = columns,
                              .x = a.data() + begin * columns,
                              .x_stride = columns,
                              .w = m.data(),  // whose columns are contiguous
                              .w_stride = columns,
                              .y = made.data(),
                              .y_row = columns},
                             1);
    for (std::size_t row = begin; row < end; ++row)
      for (std::size_t k = 0; k < columns; ++k)
        sums[row] += static_cast<double>(made[(row - begin) * columns + k]) *
                     static_cast<double>(b[row * columns + k]);
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

double output_squares(std::span<const float> rows, const Eigen::MatrixXd& moments, int threads) {
  return output_products(rows, moments.cast<float>(), rows, threads);
}

double output_error(const FixedScales& scales, RowRange range, std::span<const float> rows,
                    std::span<const std::uint8_t> codes, const Eigen::MatrixXd& moments, int threads) {
  const std::size_t columns = rows.size() / std::max<std::size_t>(range.count, 1);
  std::vector<float> lost(rows.size());
  parallel_for(range.count, kRowsAtOnce, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row)
      for (std::size_t k = 0; k < columns; ++k)
        lost[row * columns + k] =
            scales.value(range.first + row, k, codes[row * columns + k]) - rows[row * columns + k];
  });
  return output_squares(lost, moments, threads);
}

std::vector<std::uint8_t> nearest_codes(const FixedScales& scales, std::span<const float> values,
                                        int threads) {
  std::vector<std::uint8_t> codes(values.size());
  const std::size_t columns = scales.columns();
  parallel_for(scales.rows(), kRowsAtOnce, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row)
      for (std::size_t k = 0; k < columns; ++k)
        codes[row * columns + k] = scales.code(row, k, values[row * columns + k]);
  });
  return codes;
}

}  // namespace crumb::ptq

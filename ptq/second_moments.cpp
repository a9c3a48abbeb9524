#include "ptq/second_moments.h"

#include <algorithm>
#include <vector>

#include "base/threads/parallel.h"
#include "runtime/exact/products.h"

namespace crumb::ptq {
namespace {

using Eigen::Index;

constexpr std::size_t kPanel = 48;  // columns of the sum that a thread takes

/// Panels of columns, all rows of them or those up to the diagonal.
void add(Eigen::MatrixXd& sum, const SampleColumns& y, const SampleColumns& x, bool is_symmetric,
         int threads) {
  const std::size_t size = x.size();
  parallel_for(size, kPanel, threads, [&](std::size_t begin, std::size_t end) {
    const std::size_t rows = is_symmetric ? end : size, columns = end - begin;
    std::vector<float> made(rows * columns);
    for (std::size_t first = 0; first < x.samples; first += kSamplesAdded) {
      runtime::exact::multiply({.rows = rows,
                                .columns = columns,
                                .terms = std::min(kSamplesAdded, x.samples - first),
                                .x = y.values.data() + first,
                                .x_stride = y.samples,
                                .w = x.values.data() + begin * x.samples + first,
                                .w_stride = x.samples,
                                .y = made.data(),
                                .y_row = columns},
                               1);
      for (std::size_t column = 0; column < columns; ++column)
        for (std::size_t row = 0; row < rows; ++row)
          sum(static_cast<Index>(row), static_cast<Index>(begin + column)) +=
              static_cast<double>(made[row * columns + column]);
    }
  });
}

}  // namespace

void add_moments(Eigen::MatrixXd& sum, const SampleColumns& x, int threads) {
  add(sum, x, x, true, threads);
  // Panels have some rows below the diagonal, too; these are what is above it.
  sum.triangularView<Eigen::StrictlyLower>() = sum.transpose();
}

void add_cross_moments(Eigen::MatrixXd& sum, const SampleColumns& y, const SampleColumns& x, int threads) {
  add(sum, y, x, false, threads);
}

}  // namespace crumb::ptq

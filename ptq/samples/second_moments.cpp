#include "ptq/samples/second_moments.h"

#include <algorithm>
#include <vector>

#include "base/threads/parallel.h"
#include "runtime/exact/products.h"

namespace crumb::ptq {
namespace {

using Eigen::Index;

constexpr std::size_t kPanel = 48;  // columns of the sum that a thread takes

/// Adds panels of columns: all rows, or in a symmetric sum the rows down to the panel's diagonal block. The
/// part above that block is, transposed, also left of it: no other panel writes there.
void add(Eigen::MatrixXd& sum, const SampleColumns& y, const SampleColumns& x, bool is_symmetric,
         int threads) {
  const std::size_t size = x.size(), panels = (size + kPanel - 1) / kPanel;
  parallel_for(panels, 1, threads, [&](std::size_t piece, std::size_t) {
    const std::size_t begin = (panels - 1 - piece) * kPanel,
                      end = std::min(size, begin + kPanel);  // largest first
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
                                .y_row = 1,
                                .y_column = rows},
                               1);
      for (std::size_t column = 0; column < columns; ++column) {
        double* const to = &sum(0, static_cast<Index>(begin + column));
        const float* const from = made.data() + column * rows;
        for (std::size_t row = 0; row < rows; ++row) to[row] += static_cast<double>(from[row]);
      }
    }
    if (!is_symmetric) return;
    for (std::size_t row = 0; row < begin; ++row)
      for (std::size_t column = begin; column < end; ++column)
        sum(static_cast<Index>(column), static_cast<Index>(row)) =
            sum(static_cast<Index>(row), static_cast<Index>(column));
  });
}

}  // namespace

void add_moments(Eigen::MatrixXd& sum, const SampleColumns& x, int threads) { add(sum, x, x, true, threads); }

void add_cross_moments(Eigen::MatrixXd& sum, const SampleColumns& y, const SampleColumns& x, int threads) {
  add(sum, y, x, false, threads);
}

}  // namespace crumb::ptq

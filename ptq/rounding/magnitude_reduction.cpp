#include "ptq/rounding/magnitude_reduction.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/threads/parallel.h"
#include "ptq/matrices/l1_ball.h"
#include "runtime/exact/products.h"

namespace crumb::ptq {
namespace {

using Eigen::VectorXd;

constexpr std::size_t kShrunkRows = 32;
constexpr int kPowerSteps = 30;
constexpr double kMargin = 1.05;  // over the result of power iteration, which is below the eigenvalue

double largest_eigenvalue(const Eigen::MatrixXd& moments) {
  VectorXd along = moments.diagonal();  // of the inputs' size in each column
  double found = 0;
  for (int i = 0; i < kPowerSteps; ++i) {
    along.normalize();
    along = moments * along;
    found = along.norm();
  }
  // The eigenvalue is not below any diagonal entry.
  return std::max(kMargin * found, moments.diagonal().maxCoeff());
}

double root_mean_square(std::span<const float> row) {
  double sum = 0;
  for (const float x : row) sum += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(sum / static_cast<double>(row.size()));
}

/// Replaces a block by argmin over v of |v - block|^2 / 2 + weight max |v|: what projection onto the l1 ball
/// subtracts. The block is `count` columns, from `first` on, of contiguous `rows` of `columns` columns.
void shrink(std::span<float> rows, std::size_t columns, std::size_t first, std::size_t count, double weight) {
  std::vector<double> magnitudes;
  for (std::size_t row = first; row < rows.size(); row += columns)
    for (std::size_t k = 0; k < count; ++k)
      magnitudes.push_back(std::fabs(static_cast<double>(rows[row + k])));
  const auto most = static_cast<float>(l1_threshold(std::move(magnitudes), weight));
  for (std::size_t row = first; row < rows.size(); row += columns)
    for (std::size_t k = 0; k < count; ++k) rows[row + k] = std::clamp(rows[row + k], -most, most);
}

}  // namespace

void reduce_magnitudes(std::span<float> rows, const Eigen::MatrixXd& moments, std::size_t height,
                       std::size_t width, double alpha, int steps, int threads) {
  const auto columns = static_cast<std::size_t>(moments.rows());
  const Eigen::MatrixXf shares = (moments / largest_eigenvalue(moments)).cast<float>();
  const std::size_t count = rows.size() / columns, bands = (count + height - 1) / height,
                    at_a_time = (kShrunkRows + height - 1) / height;
  parallel_for(bands, at_a_time, threads, [&](std::size_t first_band, std::size_t end_band) {
    const std::size_t begin = first_band * height, end = std::min(end_band * height, count);
    const std::span<float> part = rows.subspan(begin * columns, (end - begin) * columns);
    const std::vector<float> meant(part.begin(), part.end());
    std::vector<float> off(part.size()), pulled(part.size());
    for (int step = 0; step < steps; ++step) {
      std::ranges::transform(part, meant, off.begin(), [](float v, float w) { return v - w; });
      runtime::exact::multiply({.rows = end - begin,
                                .columns = columns,
                                .terms = columns,
                                .x = off.data(),
                                .x_stride = columns,
                                .w = shares.data(),
                                .w_stride = columns,
                                .y = pulled.data(),
                                .y_row = columns},
                               1);
      std::ranges::transform(part, pulled, part.begin(), [](float v, float pull) { return v - pull; });
      for (std::size_t at = 0; at < part.size(); at += height * columns) {
        const std::span<float> band = part.subspan(at, std::min(height * columns, part.size() - at));
        double size = 0;
        for (std::size_t row = 0; row < band.size(); row += columns)
          size += root_mean_square(std::span(meant).subspan(at + row, columns));
        for (std::size_t k = 0; k < columns; k += width)
          shrink(band, columns, k, std::min(width, columns - k), alpha * size);
      }
    }
  });
}

}  // namespace crumb::ptq

#include "ptq/rounding/weighed_scales.h"

#include <algorithm>
#include <vector>

#include "base/threads/parallel.h"

namespace crumb::ptq {
namespace {

constexpr int kCandidates = 30;
constexpr float kLeast = 0.3F;  // of the scale that maps the largest magnitude to the largest code

struct Block {
  std::uint64_t index;
  std::size_t first_row, rows;  ///< in the matrix
  std::size_t first_column, columns;
};

/// Returns the sum of weights times squared differences, as four partial sums.
double weighed_squares(const float* made, const float* x, const double* weights, std::size_t count) {
  double sums[4] = {};
  const auto add = [&](std::size_t i, double& sum) {
    const auto lost = static_cast<double>(made[i] - x[i]);
    sum += weights[i] * lost * lost;
  };
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4)
    for (std::size_t lane = 0; lane < 4; ++lane) add(i + lane, sums[lane]);
  for (; i < count; ++i) add(i, sums[0]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

class WeighedSearch {
 public:
  /// `weights`: one for each group of that many rows.
  WeighedSearch(FixedScales& scales, RowRange range, std::span<const float> rows, std::size_t rows_of_group,
                std::span<const Eigen::VectorXd> weights)
      : scales_(scales),
        range_(range),
        rows_(rows),
        rows_of_group_(rows_of_group),
        weights_(weights),
        width_(scales.columns()),
        made_(std::min<std::size_t>(scales.encoding().block_cols, width_)) {}

  void find(const Block& block) {
    float least_value = 0, greatest_value = 0;
    for (std::size_t row = block.first_row; row < block.first_row + block.rows; ++row) {
      for (const float x : run(block, row)) {
        least_value = std::min(least_value, x);
        greatest_value = std::max(greatest_value, x);
      }
    }
    const float reaching = scales_.reaching(least_value, greatest_value);
    if (!(reaching > 0) || !(scales_.scale(block.index) > 0)) return;
    float best = scales_.scale(block.index);
    double least = error(block);
    for (int i = 0; i <= kCandidates; ++i) {
      const float share = kLeast + (1 - kLeast) * static_cast<float>(i) / kCandidates;
      scales_.set_scale(block.index, reaching * share);
      if (!(scales_.scale(block.index) > 0)) continue;
      const double found = error(block);
      if (found >= least) continue;
      least = found;
      best = scales_.scale(block.index);
    }
    scales_.set_scale(block.index, best);
  }

 private:
  std::span<const float> run(const Block& block, std::size_t row) const {
    return rows_.subspan((row - range_.first) * width_ + block.first_column, block.columns);
  }

  double error(const Block& block) {
    double sum = 0;
    for (std::size_t row = block.first_row; row < block.first_row + block.rows; ++row) {
      const std::span<const float> x = run(block, row);
      const double* weights = weights_[(row - range_.first) / rows_of_group_].data() +
                              static_cast<std::ptrdiff_t>(block.first_column);
      scales_.round_run(row, block.first_column, x, made_.data());
      sum += weighed_squares(made_.data(), x.data(), weights, x.size());
    }
    return sum;
  }

  FixedScales& scales_;
  RowRange range_;
  std::span<const float> rows_;
  std::size_t rows_of_group_;
  std::span<const Eigen::VectorXd> weights_;
  std::size_t width_;
  std::vector<float> made_;  ///< of one row's part
};

void find(FixedScales& scales, RowRange range, std::span<const float> rows, std::size_t rows_of_group,
          std::span<const Eigen::VectorXd> weights, int threads) {
  if (!scales.may_change()) return;
  const Encoding& encoding = scales.encoding();
  const std::size_t height = encoding.block_rows, width = encoding.block_cols, columns = scales.columns();
  const std::size_t end_row = range.first + range.count;
  const std::size_t bands = (range.count + height - 1) / height;
  parallel_for(bands, 1, threads, [&](std::size_t begin, std::size_t end) {
    WeighedSearch search(scales, range, rows, rows_of_group, weights);
    for (std::size_t band = begin; band < end; ++band) {
      const std::size_t first = range.first + band * height;
      for (std::size_t column = 0; column < columns; column += width)
        search.find({.index = scales.block_of(first, column),
                     .first_row = first,
                     .rows = std::min(height, end_row - first),
                     .first_column = column,
                     .columns = std::min(width, columns - column)});
    }
  });
}

}  // namespace

void find_scales(FixedScales& scales, RowRange range, std::span<const float> rows,
                 const Eigen::VectorXd& weights, int threads) {
  find(scales, range, rows, range.count, {&weights, 1}, threads);
}

bool blocks_span_groups(const FixedScales& scales, std::size_t rows_of_group) {
  const std::size_t height = scales.encoding().block_rows;
  return rows_of_group < scales.rows() && height > 1 && rows_of_group % height != 0;
}

void find_scales(FixedScales& scales, std::span<const float> rows, std::size_t rows_of_group,
                 const std::vector<Eigen::VectorXd>& weights, int threads) {
  find(scales, {0, scales.rows()}, rows, rows_of_group, weights, threads);
}

}  // namespace crumb::ptq

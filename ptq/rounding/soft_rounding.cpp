#include "ptq/rounding/soft_rounding.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/threads/parallel.h"
#include "runtime/exact/products.h"

namespace crumb::ptq {
namespace {

constexpr std::size_t kRowsLearned = 32;
constexpr double kStretch = 1.2, kShift = -0.1;  // stretches the sigmoid, so that it reaches 0 and 1
constexpr double kBinary = 3;                    // weight of the second sum
constexpr double kWarmUp = 0.2;                  // share of the steps

/// Returns the codes for values, sorted by what they stand for, all with a block's scale; empty where there
/// is no scale.
std::vector<std::uint8_t> sorted_codes(const FixedScales& scales) {
  const std::size_t columns = scales.columns();
  std::uint64_t element = 0;
  const std::uint64_t all = scales.rows() * columns;
  while (element < all && !(scales.scale(scales.block_of(element / columns, element % columns)) > 0))
    ++element;
  if (element == all) return {};
  const std::uint64_t row = element / columns, column = element % columns;
  std::vector<std::uint8_t> codes;
  for (std::size_t code = 0; code < std::size_t{1} << scales.encoding().number->bits; ++code) {
    const auto one = static_cast<std::uint8_t>(code);
    const float value = scales.value(row, column, one);
    if (std::isfinite(value) && scales.code(row, column, value) == one) codes.push_back(one);
  }
  std::ranges::sort(codes, {}, [&](std::uint8_t code) { return scales.value(row, column, code); });
  return codes;
}

class RoundingPiece {
 public:
  RoundingPiece(const FixedScales& scales, RowRange range, std::span<const float> meant,
                std::span<std::uint8_t> codes, const Eigen::MatrixXf& moments,
                std::span<const std::uint8_t> sorted)
      : first_row_(range.first),
        rows_(range.count),
        columns_(static_cast<std::size_t>(moments.rows())),
        meant_(meant),
        codes_(codes),
        moments_(moments.data()),
        weights_(meant.size()),
        lost_(meant.size()),
        pull_(meant.size()) {
    for (std::size_t i = 0; i < meant.size(); ++i)
      weights_[i] = between(scales, first_row_ + i / columns_, i % columns_, meant[i], codes[i], sorted);
  }

  void run(const SoftRounding& how) {
    for (std::size_t i = 0; i < meant_.size(); ++i) lost_[i] = weights_[i].nearest - meant_[i];
    const double start = loss();
    if (!(start > 0)) return;
    const double scale = static_cast<double>(meant_.size()) / start;
    for (int step = 0; step < how.steps; ++step) {
      for (std::size_t i = 0; i < meant_.size(); ++i)
        lost_[i] = weights_[i].low + static_cast<float>(height(weights_[i].v)) * weights_[i].step - meant_[i];
      multiply();
      const double done = static_cast<double>(step) / how.steps;
      const double beta =
          done < kWarmUp ? 0 : 2 + 9 * (1 + std::cos(std::numbers::pi * (done - kWarmUp) / (1 - kWarmUp)));
      for (std::size_t i = 0; i < meant_.size(); ++i) learn(i, scale, beta, step + 1, how.rate);
    }
    for (std::size_t i = 0; i < meant_.size(); ++i)
      if (weights_[i].step > 0) codes_[i] = height(weights_[i].v) > 0.5 ? weights_[i].up : weights_[i].down;
  }

 private:
  struct Weight {
    float low = 0, step = 0, nearest = 0;
    std::uint8_t down = 0, up = 0;
    double v = 0, mean = 0, square = 0;  ///< state of Adam
  };

  Weight between(const FixedScales& scales, std::size_t row, std::size_t column, float meant,
                 std::uint8_t code, std::span<const std::uint8_t> sorted) const {
    Weight made{.nearest = scales.value(row, column, code), .down = code, .up = code};
    made.low = made.nearest;
    const auto value = [&](std::uint8_t one) { return scales.value(row, column, one); };
    const auto above = std::ranges::upper_bound(sorted, meant, {}, value);
    if (above == sorted.begin() || above == sorted.end()) return made;  // beyond the grid: no choice
    made.down = *(above - 1);
    made.up = *above;
    made.low = value(made.down);
    made.step = value(made.up) - made.low;
    if (!(made.step > 0)) return made;
    const double share = std::clamp(static_cast<double>((meant - made.low) / made.step), 0.01, 0.99);
    const double inner = (share - kShift) / kStretch;
    made.v = std::log(inner / (1 - inner));
    return made;
  }

  static double sigmoid(double v) { return 1 / (1 + std::exp(-v)); }
  static double height(double v) { return std::clamp(kStretch * sigmoid(v) + kShift, 0.0, 1.0); }

  void learn(std::size_t i, double scale, double beta, int step, double rate) {
    Weight& weight = weights_[i];
    if (!(weight.step > 0)) return;
    const double s = sigmoid(weight.v), h = kStretch * s + kShift;
    if (h <= 0 || h >= 1) return;  // it reached an end, where the gradient is 0
    double slope = 2 * scale * static_cast<double>(pull_[i]) * static_cast<double>(weight.step);
    if (beta > 0) {
      const double far = 2 * h - 1;
      slope -= kBinary * 2 * beta * std::pow(std::fabs(far), beta - 1) * (far < 0 ? -1 : 1);
    }
    slope *= kStretch * s * (1 - s);
    weight.mean = 0.9 * weight.mean + 0.1 * slope;
    weight.square = 0.999 * weight.square + 0.001 * slope * slope;
    const double mean = weight.mean / (1 - std::pow(0.9, step)),
                 square = weight.square / (1 - std::pow(0.999, step));
    weight.v -= rate * mean / (std::sqrt(square) + 1e-8);
  }

  /// Computes pull_ = lost_ H.
  void multiply() {
    runtime::exact::multiply({.rows = rows_,
                              .columns = columns_,
                              .terms = columns_,
                              .x = lost_.data(),
                              .x_stride = columns_,
                              .w = moments_,
                              .w_stride = columns_,
                              .y = pull_.data(),
                              .y_row = columns_},
                             1);
  }

  double loss() {
    multiply();
    double sum = 0;
    for (std::size_t i = 0; i < meant_.size(); ++i)
      sum += static_cast<double>(pull_[i]) * static_cast<double>(lost_[i]);
    return sum;
  }

  std::size_t first_row_, rows_, columns_;
  std::span<const float> meant_;
  std::span<std::uint8_t> codes_;
  const float* moments_;
  std::vector<Weight> weights_;
  std::vector<float> lost_, pull_;
};

}  // namespace

void learn_rounding(const FixedScales& scales, RowRange range, std::span<const float> rows,
                    std::span<std::uint8_t> codes, const Eigen::MatrixXd& moments, const SoftRounding& how,
                    int threads) {
  const auto columns = static_cast<std::size_t>(moments.rows());
  const double mean = moments.diagonal().mean();
  if (!(mean > 0)) return;
  const Eigen::MatrixXf factors = (moments / mean).cast<float>();
  const std::vector<std::uint8_t> sorted = sorted_codes(scales);
  parallel_for(range.count, kRowsLearned, threads, [&](std::size_t begin, std::size_t end) {
    RoundingPiece(scales, {range.first + begin, end - begin},
                  rows.subspan(begin * columns, (end - begin) * columns),
                  codes.subspan(begin * columns, (end - begin) * columns), factors, sorted)
        .run(how);
  });
}

}  // namespace crumb::ptq

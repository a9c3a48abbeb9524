#include "ptq/rounding/descent.h"

#include <algorithm>
#include <vector>

#include "base/threads/parallel.h"
#include "runtime/exact/products.h"

namespace crumb::ptq {
namespace {

constexpr std::size_t kPieceRows = 48;
constexpr std::size_t kChunk = 64;  // columns whose changes are applied to the others together

class Descent {
 public:
  Descent(FixedScales& scales, RowRange range, std::span<const float> meant, std::span<std::uint8_t> codes,
          const Eigen::MatrixXf& moments)
      : scales_(scales),
        first_row_(range.first),
        rows_(range.count),
        columns_(static_cast<std::size_t>(moments.rows())),
        meant_(meant),
        codes_(codes),
        moments_(moments.data()),
        lost_(rows_ * columns_),
        pull_(rows_ * columns_) {
    const Encoding& encoding = scales.encoding();
    width_ = encoding.block_cols;
    scales_move_ = scales.may_change() && encoding.block_rows == 1;
    for (std::size_t row = 0; row < rows_; ++row)
      for (std::size_t k = 0; k < columns_; ++k) set_lost(row, k);
    multiply(lost_.data(), columns_, 0, columns_, pull_);
  }

  void sweep() {
    const std::size_t chunk =
        width_ >= columns_ || width_ > 2 * kChunk ? kChunk : (kChunk + width_ - 1) / width_ * width_;
    if (scales_move_ && chunk % width_ != 0) move_wide_scales();
    std::vector<float> before(rows_ * chunk), change(rows_ * chunk), pulled(rows_ * columns_);
    for (std::size_t begin = 0; begin < columns_; begin += chunk) {
      const std::size_t count = std::min(chunk, columns_ - begin);
      for (std::size_t row = 0; row < rows_; ++row) {
        std::copy_n(lost_.data() + row * columns_ + begin, count, before.data() + row * chunk);
        own_.assign(pull_.begin() + static_cast<std::ptrdiff_t>(row * columns_ + begin),
                    pull_.begin() + static_cast<std::ptrdiff_t>(row * columns_ + begin + count));
        for (std::size_t block = begin; block < begin + count; block += std::min(width_, chunk)) {
          const std::size_t end = std::min(block + std::min(width_, chunk), begin + count);
          if (scales_move_ && chunk % width_ == 0) move_scale(row, begin, block, end, count);
          for (std::size_t k = block; k < end; ++k) move_code(row, begin, k, count);
        }
        for (std::size_t i = 0; i < count; ++i)
          change[row * chunk + i] = lost_[row * columns_ + begin + i] - before[row * chunk + i];
      }
      multiply(change.data(), chunk, begin, count, pulled);
      for (std::size_t i = 0; i < pulled.size(); ++i) pull_[i] += pulled[i];
    }
  }

 private:
  const float* moment_row(std::size_t k) const { return moments_ + k * columns_; }

  void set_lost(std::size_t row, std::size_t k) {
    const std::size_t at = row * columns_ + k;
    lost_[at] = scales_.value(first_row_ + row, k, codes_[at]) - meant_[at];
  }

  /// Multiplies x [rows, count], columns from `begin` on, by the moments.
  void multiply(const float* x, std::size_t stride, std::size_t begin, std::size_t count,
                std::vector<float>& y) const {
    runtime::exact::multiply({.rows = rows_,
                              .columns = columns_,
                              .terms = count,
                              .x = x,
                              .x_stride = stride,
                              .w = moments_ + begin,
                              .w_stride = columns_,
                              .y = y.data(),
                              .y_row = columns_},
                             1);
  }

  /// Uses own_, the pulls of the chunk's columns in this row.
  void move_code(std::size_t row, std::size_t begin, std::size_t k, std::size_t count) {
    const std::size_t at = row * columns_ + k;
    const float diagonal = moment_row(k)[k];
    const float now = meant_[at] + lost_[at], requested = now - own_[k - begin] / diagonal;
    const std::uint8_t code = scales_.nearest(first_row_ + row, k, requested);
    if (code == codes_[at]) return;
    codes_[at] = code;
    const float old = lost_[at];
    set_lost(row, k);
    add(lost_[at] - old, k, begin, count);
  }

  void add(float change, std::size_t k, std::size_t begin, std::size_t count) {
    const float* factors = moment_row(k) + begin;
    for (std::size_t i = 0; i < count; ++i) own_[i] += change * factors[i];
  }

  void move_scale(std::size_t row, std::size_t begin, std::size_t first, std::size_t end, std::size_t count) {
    const std::uint64_t block = scales_.block_of(first_row_ + row, first);
    const std::size_t width = end - first;
    levels_.resize(width);
    for (std::size_t i = 0; i < width; ++i)
      levels_[i] = scales_.level(block, codes_[row * columns_ + first + i]);
    products_.assign(width, 0.0F);  // the block's moments times its levels
    for (std::size_t j = 0; j < width; ++j) {
      const float* const factors = moment_row(first + j) + first;
      const float level = levels_[j];
      float* const sums = products_.data();
      for (std::size_t i = 0; i < width; ++i) sums[i] += factors[i] * level;
    }
    float along = 0, square = 0;
    for (std::size_t i = 0; i < width; ++i) {
      along += levels_[i] * own_[first + i - begin];
      square += levels_[i] * products_[i];
    }
    if (!change_scale(block, along, square)) return;
    for (std::size_t k = first; k < end; ++k) {
      const float old = lost_[row * columns_ + k];
      set_lost(row, k);
      add(lost_[row * columns_ + k] - old, k, begin, count);
    }
  }

  /// Changes the scale if less is lost then.
  bool change_scale(std::uint64_t block, float along, float square) {
    const float old = scales_.scale(block);
    if (!(old > 0) || !(square > 0)) return false;
    const float requested = old - along / square;
    if (!(requested > 0)) return false;
    scales_.set_scale(block, requested);
    const float step = scales_.scale(block) - old;
    if (step != 0 && 2 * step * along + step * step * square < 0 && scales_.scale(block) > 0) return true;
    scales_.set_scale(block, old);
    return false;
  }

  /// Changes scales of blocks wider than a chunk, those of all rows together.
  void move_wide_scales() {
    std::vector<float> levels(rows_ * width_), pulled(rows_ * columns_), change(rows_ * width_);
    for (std::size_t first = 0; first < columns_; first += width_) {
      const std::size_t count = std::min(width_, columns_ - first);
      for (std::size_t row = 0; row < rows_; ++row) {
        const std::uint64_t block = scales_.block_of(first_row_ + row, first);
        for (std::size_t i = 0; i < count; ++i)
          levels[row * width_ + i] = scales_.level(block, codes_[row * columns_ + first + i]);
      }
      multiply(levels.data(), width_, first, count, pulled);
      for (std::size_t row = 0; row < rows_; ++row) {
        float along = 0, square = 0;
        for (std::size_t i = 0; i < count; ++i) {
          along += levels[row * width_ + i] * pull_[row * columns_ + first + i];
          square += levels[row * width_ + i] * pulled[row * columns_ + first + i];
        }
        const bool moved = change_scale(scales_.block_of(first_row_ + row, first), along, square);
        for (std::size_t i = 0; i < count; ++i) {
          const float old = lost_[row * columns_ + first + i];
          if (moved) set_lost(row, first + i);
          change[row * width_ + i] = lost_[row * columns_ + first + i] - old;
        }
      }
      multiply(change.data(), width_, first, count, pulled);
      for (std::size_t i = 0; i < pulled.size(); ++i) pull_[i] += pulled[i];
    }
  }

  FixedScales& scales_;
  std::size_t first_row_, rows_, columns_, width_ = 0;
  std::span<const float> meant_;
  std::span<std::uint8_t> codes_;
  const float* moments_;
  bool scales_move_ = false;
  std::vector<float> lost_, pull_, own_;
  std::vector<float> levels_, products_;  ///< of the block whose scale changes
};

}  // namespace

void descend(FixedScales& scales, RowRange range, std::span<const float> rows, std::span<std::uint8_t> codes,
             const Eigen::MatrixXd& moments, int sweeps, int threads) {
  const auto columns = static_cast<std::size_t>(moments.rows());
  const Eigen::MatrixXf factors = (moments / moments.diagonal().mean()).cast<float>();
  parallel_for(range.count, kPieceRows, threads, [&](std::size_t begin, std::size_t end) {
    Descent descent(scales, {range.first + begin, end - begin},
                    rows.subspan(begin * columns, (end - begin) * columns),
                    codes.subspan(begin * columns, (end - begin) * columns), factors);
    for (int i = 0; i < sweeps; ++i) descent.sweep();
  });
}

}  // namespace crumb::ptq

#include "ptq/rounding/accumulator_limits.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ptq/matrices/l1_ball.h"

namespace crumb::ptq {
namespace {

std::int64_t floor_of(std::int64_t a, std::int64_t b) {  // precondition: b > 0
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

}  // namespace

AccumulatorLimits::AccumulatorLimits(const FixedScales& scales, std::size_t first_row,
                                     std::span<const float> rows, InputRange input, Register accumulator)
    : scales_(scales),
      first_row_(first_row),
      least_(input.least),
      greatest_(input.greatest),
      most_((std::int64_t{1} << (accumulator.bits - 1)) - 1) {
  const std::size_t columns = scales.columns(), count = rows.size() / columns;
  width_ = accumulator.tile == 0 ? columns : std::min(accumulator.tile, columns);
  tiles_ = (columns + width_ - 1) / width_;
  positive_.assign(count * tiles_, 0);
  negative_.assign(count * tiles_, 0);
  const double radius = 2 * static_cast<double>(most_) / static_cast<double>(greatest_ - least_);
  for (std::size_t row = 0; row < count; ++row) {
    for (std::size_t begin = 0; begin < columns; begin += width_) {
      std::vector<double> codes(width_, 0.0);  // a smaller tile is padded with zeros
      double mean = 0;
      for (std::size_t k = begin; k < std::min(columns, begin + width_); ++k) {
        const float scale = scales.scale(scales.block_of(first_row + row, k));
        codes[k - begin] =
            scale > 0 ? static_cast<double>(rows[row * columns + k]) / static_cast<double>(scale) : 0;
        mean += codes[k - begin] / static_cast<double>(width_);
      }
      for (double& code : codes) code = std::fabs(code - mean);
      thresholds_.push_back(l1_threshold(std::move(codes), radius));
    }
  }
}

float AccumulatorLimits::nearer_to_zero(std::size_t row, std::size_t column, float x) const {
  const double threshold = thresholds_[tile_of(row, column)] *
                           static_cast<double>(scales_.scale(scales_.block_of(first_row_ + row, column)));
  return static_cast<float>(
      std::copysign(std::max(std::fabs(static_cast<double>(x)) - threshold, 0.0), static_cast<double>(x)));
}

std::uint8_t AccumulatorLimits::admit(std::size_t row, std::size_t column, std::uint8_t code) {
  const NumberFormat& number = *scales_.encoding().number;
  std::int64_t &p = positive_[tile_of(row, column)], &n = negative_[tile_of(row, column)];
  auto requested = static_cast<std::int64_t>(scales_.level(scales_.block_of(first_row_ + row, column), code));
  // Limits: greatest p + least n <= most; least p + greatest n >= -most.
  if (requested > 0) {
    std::int64_t room = floor_of(most_ - least_ * n - greatest_ * p, greatest_);
    if (least_ < 0) room = std::min(room, floor_of(most_ + least_ * p + greatest_ * n, -least_));
    requested = std::clamp<std::int64_t>(room, 0, requested);
    p += requested;
  } else if (requested < 0) {
    std::int64_t room = floor_of(most_ + least_ * p + greatest_ * n, greatest_);
    if (least_ < 0) room = std::min(room, floor_of(most_ - greatest_ * p - least_ * n, -least_));
    requested = -std::clamp<std::int64_t>(room, 0, -requested);
    n += requested;
  }
  return number.bits_of(static_cast<int>(requested));
}

}  // namespace crumb::ptq

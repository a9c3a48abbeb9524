#include "quant/distortion.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "formats/error.h"
#include "quant/parallel.h"

namespace crumb {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr uint64_t kSegmentsAtATime = 1024;  // segments summed side by side before they add up in order

double absolute_error(float reference, float value) {
  if (reference == value || (std::isnan(reference) && std::isnan(value))) return 0;
  const double error = std::fabs(static_cast<double>(reference) - static_cast<double>(value));
  return std::isnan(error) ? kInfinity : error;
}

void check_sizes(std::span<const float> reference, std::span<const float> value) {
  if (reference.size() == value.size()) return;
  throw Error("distortion: " + std::to_string(reference.size()) + " reference values and " +
              std::to_string(value.size()) + " values; expected as many");
}

}  // namespace

void DistortionSum::Sums::add_value(float reference, float value) {
  const auto x = static_cast<double>(reference);
  if (std::isfinite(reference)) signal.add(x * x);
  const double error = absolute_error(reference, value);
  if (error == 0) {
    ++exact;
    return;
  }
  square.add(error * error);
  absolute.add(error);
  most = std::max(most, error);
}

void DistortionSum::Sums::add(const Sums& other) {
  signal.add(other.signal);
  square.add(other.square);
  absolute.add(other.absolute);
  most = std::max(most, other.most);
  exact += other.exact;
}

void DistortionSum::fill(Segment& segment, uint64_t lane, const float* reference, const float* value,
                         uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) segment[(lane + i) % kLanes].add_value(reference[i], value[i]);
}

DistortionSum::Sums DistortionSum::close(const Segment& segment) {
  Sums sums;
  for (const Sums& lane : segment) sums.add(lane);
  return sums;
}

void DistortionSum::add(std::span<const float> reference, std::span<const float> value, int threads) {
  check_sizes(reference, value);
  const float* x = reference.data();
  const float* y = value.data();
  uint64_t left = reference.size();
  const auto take = [&](uint64_t count) {
    x += count;
    y += count;
    left -= count;
    count_ += count;
  };
  std::vector<Sums> sums;
  while (left > 0) {
    const uint64_t filled = count_ % kSegment;
    const uint64_t segments = std::min(left / kSegment, kSegmentsAtATime);
    if (filled == 0 && segments > 0) {
      sums.assign(segments, {});
      parallel_for(segments, 16, threads, [&](size_t begin, size_t end) {
        for (size_t s = begin; s < end; ++s) {
          Segment segment{};
          fill(segment, 0, x + s * kSegment, y + s * kSegment, kSegment);
          sums[s] = close(segment);
        }
      });
      for (const Sums& each : sums) closed_.add(each);
      take(segments * kSegment);
      continue;
    }
    const uint64_t count = std::min(left, kSegment - filled);
    fill(open_, filled % kLanes, x, y, count);
    if (filled + count == kSegment) {
      closed_.add(close(open_));
      open_ = {};
    }
    take(count);
  }
}

Distortion DistortionSum::result() const {
  Sums sums = closed_;
  if (count_ % kSegment != 0) sums.add(close(open_));
  const double square = sums.square.value();
  return {.count = count_,
          .sqnr_db = square == 0 ? kInfinity : 10 * std::log10(sums.signal.value() / square),
          .max_abs_error = sums.most,
          .mean_abs_error = count_ == 0 ? 0 : sums.absolute.value() / static_cast<double>(count_),
          .p_norm = std::sqrt(square),
          .exact = sums.exact};
}

Distortion distortion(std::span<const float> reference, std::span<const float> value, int threads) {
  DistortionSum sum;
  sum.add(reference, value, threads);
  return sum.result();
}

double error_p_norm(std::span<const float> reference, std::span<const float> value, double p) {
  check_sizes(reference, value);
  if (!(p > 0)) throw Error("p-norm: expected p above 0, found " + std::to_string(p));
  double most = 0;
  for (size_t i = 0; i < reference.size(); ++i) most = std::max(most, absolute_error(reference[i], value[i]));
  if (most == 0 || std::isinf(most) || std::isinf(p)) return most;
  CompensatedSum sum;
  for (size_t i = 0; i < reference.size(); ++i) {
    sum.add(std::pow(absolute_error(reference[i], value[i]) / most, p));
  }
  return most * std::pow(sum.value(), 1 / p);
}

}  // namespace crumb

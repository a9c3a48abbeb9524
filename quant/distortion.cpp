#include "quant/distortion.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/threads/parallel.h"

namespace crumb {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr uint64_t kSegmentsAtATime = 1024;  // segments summed at the same time before they add up in order
constexpr uint64_t kSegmentsOfAThread = 16;  // segments that a thread takes at a time

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

void add_distortion_ref(const float* reference, const float* value, uint64_t count, uint64_t first_lane,
                        DistortionLanes& lanes) {
  for (uint64_t i = 0; i < count; ++i) {
    const size_t lane = (first_lane + i) % kErrorLanes;
    const auto x = static_cast<double>(reference[i]);
    if (std::isfinite(reference[i])) lanes.signal[lane] += x * x;
    const double error = absolute_error(reference[i], value[i]);
    lanes.exact += error == 0;
    lanes.square[lane] += error * error;
    lanes.absolute[lane] += error;
    lanes.most[lane] = std::max(lanes.most[lane], error);
  }
}

void DistortionSum::fill(DistortionLanes& lanes, uint64_t first_lane, const float* reference,
                         const float* value, uint64_t count) {
  const uint64_t lead = std::min((kErrorLanes - first_lane) % kErrorLanes, count);
  const uint64_t whole = (count - lead) / kErrorLanes * kErrorLanes;
  const auto reference_part = [&](uint64_t first, uint64_t n) {
    add_distortion_ref(reference + first, value + first, n, first_lane + first, lanes);
  };
  reference_part(0, lead);
  if (!loops().distortion(reference + lead, value + lead, whole, lanes)) reference_part(lead, whole);
  reference_part(lead + whole, count - lead - whole);
}

void DistortionSum::Sums::add(const DistortionLanes& lanes) {
  signal.add(fold_lanes(lanes.signal));
  square.add(fold_lanes(lanes.square));
  absolute.add(fold_lanes(lanes.absolute));
  most = std::max(most, *std::ranges::max_element(lanes.most));
  exact += lanes.exact;
}

template <class ValuesOf>
void DistortionSum::add_pieces(std::span<const float> reference, int threads, const ValuesOf& values_of) {
  const float* x = reference.data();
  uint64_t done = 0;
  std::vector<DistortionLanes> segments;
  while (done < reference.size()) {
    const uint64_t left = reference.size() - done;
    const uint64_t filled = count_ % kSegment;
    const uint64_t whole = std::min(left / kSegment, kSegmentsAtATime);
    uint64_t taken = whole * kSegment;
    if (filled == 0 && whole > 0) {
      segments.assign(whole, {});
      parallel_for(whole, kSegmentsOfAThread, threads, [&](size_t begin, size_t end) {
        for (size_t s = begin; s < end; ++s) {
          const uint64_t first = done + s * kSegment;
          values_of(first, kSegment, [&](const float* y) { fill(segments[s], 0, x + first, y, kSegment); });
        }
      });
      for (const DistortionLanes& segment : segments) closed_.add(segment);
    } else {
      taken = std::min(left, kSegment - filled);
      values_of(done, taken, [&](const float* y) { fill(open_, filled % kErrorLanes, x + done, y, taken); });
      if (filled + taken == kSegment) {
        closed_.add(open_);
        open_ = {};
      }
    }
    done += taken;
    count_ += taken;
  }
}

void DistortionSum::add(std::span<const float> reference, std::span<const float> value, int threads) {
  check_sizes(reference, value);
  add_pieces(reference, threads,
             [&](uint64_t first, uint64_t, const auto& use) { use(value.data() + first); });
}

void DistortionSum::add_made(std::span<const float> reference, const MakeValues& make, int threads) {
  add_pieces(reference, threads, [&](uint64_t first, uint64_t count, const auto& use) {
    std::array<float, kSegment> values;
    make(first, std::span(values).first(count));
    use(values.data());
  });
}

Distortion DistortionSum::result() const {
  Sums sums = closed_;
  sums.add(open_);  // zeros where no segment is open
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

double sqnr_of(double noise_over_signal) { return -10 * std::log10(noise_over_signal); }

}  // namespace crumb

// What quantization did to numbers: how far `value` lies from `reference`.
//
//   error e  reference - value in double; 0 where the two are equal (so also for inf and the same inf, NaN
//            and NaN, +0 and -0), infinite where it cannot be told (NaN or inf on one side only)
//   SQNR     10 log10(sum reference^2 / sum e^2), +inf when every e is 0; references that are inf or NaN are
//            left out of the signal
//
// Sums are compensated (Knuth's TwoSum: Neumaier's algorithm without its branch) and have one fixed order:
// value i of the whole goes to lane i mod 8 of segment i / 4096; the lanes, then the segments add up in
// order. So neither the chunks that the numbers come in nor the number of threads changes a bit of a result.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace crumb {

struct Distortion {
  uint64_t count = 0;
  double sqnr_db = 0;
  double max_abs_error = 0;
  double mean_abs_error = 0;  ///< 0 for no values
  double p_norm = 0;          ///< (sum |e|^p)^(1/p) for p = 2
  uint64_t exact = 0;         ///< values whose error is 0
};

/// A sum that carries its rounding error along.
struct CompensatedSum {
  double high = 0;
  double low = 0;

  void add(double x) {
    const double sum = high + x;
    const double x_part = sum - high;
    low += (high - (sum - x_part)) + (x - x_part);
    high = sum;
  }
  void add(const CompensatedSum& other) {
    add(other.high);
    low += other.low;
  }
  /// Infinite once an infinite term came in.
  double value() const { return high - high == 0 ? high + low : high; }
};

/// Distortion of numbers that come in chunks; memory does not grow with them.
class DistortionSum {
 public:
  /// Throws Error when the sizes differ. threads: 0 for those the machine has.
  void add(std::span<const float> reference, std::span<const float> value, int threads = 0);

  Distortion result() const;

  static constexpr uint64_t kSegment = 4096;
  static constexpr uint64_t kLanes = 8;

 private:
  struct Sums {
    CompensatedSum signal, square, absolute;
    double most = 0;
    uint64_t exact = 0;

    void add_value(float reference, float value);
    void add(const Sums& other);
  };
  using Segment = std::array<Sums, kLanes>;

  static void fill(Segment& segment, uint64_t lane, const float* reference, const float* value,
                   uint64_t count);
  static Sums close(const Segment& segment);

  uint64_t count_ = 0;
  Sums closed_;     ///< of the segments that are full
  Segment open_{};  ///< the one that is not
};

/// Distortion of two arrays. Throws Error when the sizes differ. threads: 0 for those the machine has.
Distortion distortion(std::span<const float> reference, std::span<const float> value, int threads = 0);

/// (sum |e|^p)^(1/p); the largest |e| for p = inf. Scaled by the largest error, so that no power overflows.
/// Throws Error when the sizes differ or p is not positive.
double error_p_norm(std::span<const float> reference, std::span<const float> value, double p);

}  // namespace crumb

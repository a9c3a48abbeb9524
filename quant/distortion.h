// What quantization did to numbers: how far `value` is from `reference`.
//
//   error e  reference - value in double; 0 where the two are equal (also for inf and the same inf, NaN and
//            NaN, +0 and -0), infinite where it is undefined (NaN or inf on one side only)
//   SQNR     10 log10(sum reference^2 / sum e^2), +inf when every e is 0; references that are inf or NaN are
//            left out of the signal
//
// Sums have one fixed order. Value i of the whole goes to lane i mod 16 of segment i / 4096. A lane adds up
// in double, then the lanes of a segment are folded (k and k + 8, then k + 4, k + 2, k + 1). The segments add
// up in order, compensated (Knuth's TwoSum: Neumaier's algorithm without its branch). So neither the chunks
// that the numbers come in nor threads nor the instruction set change a bit of a result. All terms are
// positive: a term is rounded at most 263 times before the segments add up (difference, square, 256 sums of
// its lane, 4 folds), so the error of a sum is less than 3e-14 of the sum.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "quant/loops/loops.h"

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
  /// Infinite once an infinite term was added.
  double value() const { return high - high == 0 ? high + low : high; }
};

/// Adds up the distortion of numbers that come in chunks; its memory does not grow with them.
class DistortionSum {
 public:
  /// Throws Error when the sizes differ. threads: 0 for those the machine has.
  void add(std::span<const float> reference, std::span<const float> value, int threads = 0);

  /// The same with values that are made as they are needed: make(first, out) gives the values for
  /// reference[first] and on. Several threads call it at once, for at most kSegment values each.
  using MakeValues = std::function<void(uint64_t first, std::span<float> out)>;
  void add_made(std::span<const float> reference, const MakeValues& make, int threads = 0);

  Distortion result() const;

  static constexpr uint64_t kSegment = 4096;

 private:
  struct Sums {
    CompensatedSum signal, square, absolute;
    double most = 0;
    uint64_t exact = 0;

    void add(const DistortionLanes& segment);
  };

  template <class ValuesOf>
  void add_pieces(std::span<const float> reference, int threads, const ValuesOf& values_of);
  static void fill(DistortionLanes& lanes, uint64_t first_lane, const float* reference, const float* value,
                   uint64_t count);

  uint64_t count_ = 0;
  Sums closed_;             ///< the segments that are full
  DistortionLanes open_{};  ///< the segment that is not
};

/// Scalar twin of Loops::distortion, for any values: adds `count` values, the first of which belongs to lane
/// `first_lane`.
void add_distortion_ref(const float* reference, const float* value, uint64_t count, uint64_t first_lane,
                        DistortionLanes& lanes);

/// Returns the distortion of two arrays. Throws Error when the sizes differ. threads: 0 for those the machine
/// has.
Distortion distortion(std::span<const float> reference, std::span<const float> value, int threads = 0);

/// Returns (sum |e|^p)^(1/p); the largest |e| for p = inf. Scaled by the largest error, so that no power
/// overflows. Throws Error when the sizes differ or p is not positive.
double error_p_norm(std::span<const float> reference, std::span<const float> value, double p);

/// Returns the SQNR of a noise whose sum of squares is this share of the signal's.
double sqnr_of(double noise_over_signal);

}  // namespace crumb

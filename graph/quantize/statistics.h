// What calibration keeps of the values of one edge, in bounded memory, and the scale that follows.
//
//   absmax      the largest magnitude seen
//   percentile  as for weights (quant/search/scale_search.h); exact for up to kSample values, for more from
//               counts of values by sign, exponent and upper 8 bits of mantissa: at most 0.4 % too large
//   mse         as for weights, the best of 36 factors, over kSample values; of more values over a sample
//               that a hash of their positions selects, with the least and the greatest value in it
//   ema         a moving average over batches: the first batch's largest magnitude, then 0.9 of what it is
//               and 0.1 of the next batch's
//
// With a zero point, the least and the greatest value replace the magnitude. Only the sample and the moving
// average depend on the order of values, and nothing on the number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quant/quant_spec.h"

namespace crumb::graph {

struct ScaleAndZero {
  float scale = 0;  ///< 0: all values were zero
  float zero_point = 0;
};

/// Returns the scale and zero point of one quantizer on [least, greatest], both finite, by the rule of
/// absmax.
ScaleAndZero scale_for(const QuantSpec& spec, float least, float greatest);

/// Returns what is added to x / scale and subtracted from codes: the zero point, -0.5 for half-integers.
float shift_of(const QuantSpec& spec, float zero_point);

/// Whether x is beyond the codes.
bool saturates(const QuantSpec& spec, float scale, float zero_point, float x);

class EdgeStatistics {
 public:
  static constexpr std::size_t kSample = std::size_t{1} << 18;

  explicit EdgeStatistics(const QuantSpec& spec) : spec_(spec), pages_(kPages) {}

  /// Adds the values of a batch.
  void add(std::span<const float> values);

  std::uint64_t count() const { return count_; }
  std::uint64_t not_finite() const { return not_finite_; }  ///< of these values; they are left out
  float least() const { return least_; }
  float greatest() const { return greatest_; }

  ScaleAndZero fit() const;

 private:
  using Page = std::array<std::uint64_t, 256>;
  static constexpr std::size_t kPages = 512;

  void sample(float x);
  void thin();
  void count_bin(float x);
  ScaleAndZero fit_sample() const;
  ScaleAndZero fit_counts() const;
  float magnitude_at(std::uint64_t index) const;
  float value_at(std::uint64_t index) const;

  QuantSpec spec_;
  std::uint64_t count_ = 0, not_finite_ = 0;
  float least_ = 0, greatest_ = 0;
  float moving_least_ = 0, moving_greatest_ = 0, moving_most_ = 0;
  bool moves_ = false;
  std::vector<float> sample_;
  std::vector<std::uint64_t> marks_;          ///< hashes of the sample's positions
  unsigned thinned_ = 0;                      ///< one value of 2^thinned is kept
  std::vector<std::unique_ptr<Page>> pages_;  ///< by the upper bits of ordered values; null: no value there
};

}  // namespace crumb::graph

// A step function from a layer's integer sums to the codes of the next quantizer, and the operations between
// them.
//
// A sum S is the value S * factor. Additions, multiplications and divisions by constants, batch
// normalization, rectifiers and clips follow, then a quantizer. All of them are monotone, so the code that
// the quantizer gives is a step function of S: the least code plus the number of thresholds that S reaches
// (FINN's MultiThreshold; Umuroglu and Jahre 2017, Streamlined Deployment for Quantized Neural Networks,
// section 3). Thresholds are derived in exact arithmetic on the constants as the file has them: no rounding
// of floats comes between a sum and its code.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "runtime/integer/lines.h"
#include "runtime/lower/expansion.h"

namespace crumb::runtime {

/// One operation of a chain, with one number for all channels or one for each.
struct ChainStep {
  enum class Kind : std::uint8_t {
    kAdd,
    kMultiply,
    kDivide,
    kClip,   ///< to [low, high]
    kLeaky,  ///< negative values times the number, which is not negative
  };
  Kind kind = Kind::kAdd;
  std::vector<double> numbers;
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();

  double number(std::size_t channel) const { return numbers[numbers.size() == 1 ? 0 : channel]; }
};

/// A quantizer with one scale: the code of a value v is the nearest integer to v / scale + zero, clamped.
struct UniformQuantizer {
  double scale = 1;
  std::int32_t zero = 0;
  std::int32_t low = 0, high = 0;  ///< the least and the greatest code
  /// Ties go to the even integer after the zero point was added (Quant), or before (QuantizeLinear).
  bool ties_with_zero = true;
  bool bipolar = false;  ///< codes -1 and 1, by the sign; 0 gives 1

  std::int32_t steps() const { return bipolar ? 1 : high - low; }
  std::int32_t code(std::int32_t reached) const { return bipolar ? 2 * reached - 1 : low + reached; }
};

/// Thresholds of a channel that no sum reaches, and that every sum reaches.
using integer::kAlways;
using integer::kNever;

class Chain {
 public:
  /// factors: what the sums of each channel are multiplied by first; not 0.
  Chain(std::vector<double> factors, std::vector<ChainStep> steps)
      : factors_(std::move(factors)), steps_(std::move(steps)) {}

  std::size_t channels() const { return factors_.size(); }
  /// Whether every number is 0 or of a magnitude for which the arithmetic is exact, and every number that
  /// must be positive is.
  bool is_sound() const;
  /// Whether larger sums of the channel give smaller values.
  bool falls(std::size_t channel) const;

  /// The code of a sum, in exact arithmetic.
  std::int32_t code(std::size_t channel, std::int64_t sum, const UniformQuantizer& quantizer) const;

  /// The thresholds of a channel, ascending, quantizer.steps() of them, for sums in [least, most]; sums of
  /// falling channels are negated first. The code of a sum is quantizer.code() of the number of thresholds
  /// that are not above it. Preconditions: is_sound(), |sums| < 2^31 - 1.
  std::vector<std::int32_t> thresholds(std::size_t channel, std::int32_t least, std::int32_t most,
                                       const UniformQuantizer& quantizer) const;

 private:
  /// Whether the value of a sum is at or beyond the step from `reached` - 1 to `reached` thresholds.
  bool reaches(std::size_t channel, std::int64_t sum, const UniformQuantizer& quantizer,
               std::int32_t reached) const;
  bool reaches_exactly(std::size_t channel, std::int64_t sum, const UniformQuantizer& quantizer,
                       std::int32_t reached) const;

  std::vector<double> factors_;
  std::vector<ChainStep> steps_;
};

}  // namespace crumb::runtime

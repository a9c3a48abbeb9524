// What becomes of integer sums: floats, or codes by thresholds (lower/domain.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/operator.h"

namespace crumb::runtime {

inline constexpr std::size_t kRowsAtATime =
    64;  ///< of a product: sums that are there at a time, for each channel

/// Calls f.operator()<T>() with the type that carries codes. Throws Error, which names the node, for others.
template <class F>
void with_codes(const Call& call, const Array& array, const F& f) {
  if (array.carrier() == Carrier::kUint8) return f.template operator()<std::uint8_t>();
  if (array.carrier() == Carrier::kInt8) return f.template operator()<std::int8_t>();
  call.fail("cannot take " + text_of(array) + " as codes");
}

/// The type of the codes that a node makes.
ElementType codes_type(const NodeFacts& facts);

/// Where among many thresholds a sum lies: they are evenly spread nearly everywhere, so a line comes close.
struct Guess {
  float at = 0, from = 0, slope = 0;

  static Guess of(std::span<const std::int32_t> thresholds);
  /// How many thresholds the sum reaches, exactly.
  std::int32_t reached(std::int32_t sum, const std::int32_t* thresholds, std::size_t count) const;
};

/// What becomes of the sums of each channel.
struct Finish {
  std::vector<double> factors, shifts;
  std::vector<std::int32_t> thresholds;
  std::vector<Guess> guesses;  ///< of many steps, one for each channel
  std::size_t steps = 0;
  std::int32_t low = 0;
  bool bipolar = false;
  ElementType type = ElementType::kFloat;

  /// As a product's node says.
  static Finish of(const NodeFacts& facts);

  /// Sums to where they belong: of channel first + c, `rows` of them from sums[c * kRowsAtATime] on, to elements
  /// at + c * channel_stride + row * row_stride.
  void put(std::size_t first, std::size_t channels, const std::int32_t* sums, std::size_t rows, Array& made,
           std::size_t at, std::size_t channel_stride, std::size_t row_stride) const;
};

/// Threads for so many multiplications.
int threads_for(const Call& call, std::size_t work);

}  // namespace crumb::runtime

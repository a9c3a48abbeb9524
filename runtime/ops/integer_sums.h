// Converts integer sums to floats, or to codes by thresholds or lines (lower/domain.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/integer/lines.h"
#include "runtime/operator.h"

namespace crumb::runtime {

inline constexpr std::size_t kRowsAtATime = 64;  ///< rows of a 16-bit product whose sums are held at a time

/// Calls `f.operator()<T>()` with the type that carries codes. Throws Error, which names the node, for
/// others.
template <class F>
void with_codes(const Call& call, const Array& array, const F& f) {
  if (array.carrier() == Carrier::kUint8) return f.template operator()<std::uint8_t>();
  if (array.carrier() == Carrier::kInt8) return f.template operator()<std::int8_t>();
  call.fail("cannot take " + text_of(array) + " as codes");
}

/// Converts the sums of each channel.
class Finish {
 public:
  /// For a product's node with so many output channels. Throws Error where its attributes or inputs are
  /// wrong.
  static Finish of(const NodeFacts& facts, std::size_t channels);

  ElementType type() const { return type_; }

  /// Writes sums to elements at, at + 1, ...: all of one channel, or one for each channel from `channel` on.
  void put(integer::Channels channels, std::size_t channel, std::span<const std::int32_t> sums, Array& made,
           std::size_t at) const;

 private:
  void put_codes(integer::Channels channels, std::size_t channel, std::span<const std::int32_t> sums,
                 std::uint8_t* codes) const;
  void read_lines(std::size_t channels);
  void choose_together();
  void count_steps(std::size_t channel, std::span<const std::int32_t> sums, std::uint8_t* codes) const;

  ElementType type_ = ElementType::kFloat;
  std::int32_t low_ = 0;
  bool bipolar_ = false;
  std::size_t steps_ = 0;
  Array factors_, shifts_, thresholds_, of_lines_;  ///< the node's constants, shared
  integer::Lines lines_;
  std::vector<std::uint8_t> pieces_;  ///< lines of each channel, added up; 0: its thresholds are counted
  std::size_t together_ = 0;          ///< lines that are added up of all channels side by side
  std::vector<std::size_t> alone_;    ///< channels for which those are not all, ascending
};

/// The number of threads for so many multiplications.
int threads_for(const Call& call, std::size_t work);

}  // namespace crumb::runtime

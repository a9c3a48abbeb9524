// Chooses codes one by one so that sums of products stay within a register: AXE (Colbert et al. 2024,
// arXiv:2409.17092).
//
// Inputs are integers from `least` to `greatest`; a register of P bits sums a tile of a row, or all of it.
// With p the sum of its positive codes and n of its negative ones, the sums are between least p + greatest n
// and greatest p + least n; both stay within +-(2^(P-1) - 1) after every code, which bounds the next one. So
// that codes become small, rather than the last ones 0, each weight is first brought nearer to 0, by the
// threshold with which the tile's weights, minus their mean, are projected onto the l1 ball of radius (2^P -
// 2) / (greatest - least).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quant/codes/fixed_scales.h"

namespace crumb::ptq {

/// A layer's integer inputs.
struct InputRange {
  std::int64_t least = 0, greatest = 0;
};

struct Register {
  int bits = 32;         ///< P, for the sums of a tile
  std::size_t tile = 0;  ///< terms; 0: all terms of a row
};

/// Limits for consecutive rows. Several threads may use it at once for different rows.
class AccumulatorLimits {
 public:
  /// `rows`: the weights of rows from `first_row` on. Preconditions: integer codes without zero points; least
  /// <= 0 < greatest; 2 to 62 bits.
  AccumulatorLimits(const FixedScales& scales, std::size_t first_row, std::span<const float> rows,
                    InputRange input, Register accumulator);

  /// Returns the value to round instead of x. `row` counts from first_row.
  float nearer_to_zero(std::size_t row, std::size_t column, float x) const;

  /// Returns the code, or the nearest for which the register has room. To be called once for each column of a
  /// row, in any order.
  std::uint8_t admit(std::size_t row, std::size_t column, std::uint8_t code);

 private:
  std::size_t tile_of(std::size_t row, std::size_t column) const { return row * tiles_ + column / width_; }

  const FixedScales& scales_;
  std::size_t first_row_, width_, tiles_;
  std::int64_t least_, greatest_, most_;
  std::vector<double> thresholds_;                 ///< by tile, in units of codes
  std::vector<std::int64_t> positive_, negative_;  ///< by tile
};

}  // namespace crumb::ptq

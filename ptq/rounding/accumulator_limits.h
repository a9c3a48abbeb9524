// Codes whose sums of products stay within a register, chosen one by one: AXE (Colbert et al. 2024, arXiv:2409.17092).
//
// Inputs are integers from `least` to `greatest`; a tile of a row, or all of it, is added up in a register of P bits. With p the
// sum of its codes above 0 and n of those below, the sums lie between least p + greatest n and greatest p + least n; both stay
// within +-(2^(P-1) - 1) after every code: that bounds the next. So that codes come out small rather than the last ones 0, each
// weight is brought nearer to 0 before, by what the projection of the tile's weights less their mean onto the l1 ball of radius
// (2^P - 2) / (greatest - least) takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quant/codes/fixed_scales.h"

namespace crumb::ptq {

/// What a layer takes in, as integers.
struct InputRange {
  std::int64_t least = 0, greatest = 0;
};

struct Register {
  int bits = 32;         ///< P, of a tile's sums
  std::size_t tile = 0;  ///< terms; 0: all of a row's
};

/// Of consecutive rows. By several threads at once for different rows.
class AccumulatorLimits {
 public:
  /// `rows`: the weights of rows from `first_row` on. Preconditions: integer codes without zero points; least <= 0 < greatest;
  /// from 2 to 62 bits.
  AccumulatorLimits(const FixedScales& scales, std::size_t first_row, std::span<const float> rows,
                    InputRange input, Register accumulator);

  /// What to round instead of x. `row` counts from the first.
  float nearer_to_zero(std::size_t row, std::size_t column, float x) const;

  /// The code, or the nearest that the register has room for; once for each column of a row, in any order.
  std::uint8_t admit(std::size_t row, std::size_t column, std::uint8_t code);

 private:
  std::size_t tile_of(std::size_t row, std::size_t column) const { return row * tiles_ + column / width_; }

  const FixedScales& scales_;
  std::size_t first_row_, width_, tiles_;
  std::int64_t least_, greatest_, most_;
  std::vector<double> thresholds_;                 ///< of tiles, in codes
  std::vector<std::int64_t> positive_, negative_;  ///< of tiles
};

}  // namespace crumb::ptq

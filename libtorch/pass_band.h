// Where the straight-through estimator passes a gradient: for the values that a grid rounds but does not
// clamp.
//
//   integer, half-integer   lo <= round(u) <= hi with u as in quant/code_grid.h (u = x / s + z,
//                           or x / s - 0.5), rounded as the spec says
//   minifloat               |round(u)| <= largest finite value, u = x / s rounded in units of
//                           the topmost binade
//   codebook                at most half a gap beyond the outermost values:
//                           c[0] - (c[1] - c[0]) / 2 <= x / s <= ...
//   binary                  |x / s| <= 1, the usual choice (BinaryConnect; Brevitas's ClampedBinary)
//
// This is the gradient of clamp(round(u), lo, hi) with a straight-through round, the contract's own order,
// and what Brevitas and LibTorch's fake_quantize do. Clamping first (u outside [lo, hi] is cut off) would
// block the gradient of a block's largest value whenever the scale's own rounding brings it to,
// say, 7.0000005.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/code_grid.h"

namespace crumb {

class PassBand {
 public:
  /// Keeps a pointer to the grid.
  explicit PassBand(const CodeGrid& grid);

  /// inside[i] = whether the gradient of x[i] passes under scale s and zero point z; `index` is the tensor
  /// index of x[0] (stochastic rounding only). With s = 0, the limit: of x = 0 alone.
  void inside(const float* x, size_t n, float s, float z, uint64_t index, bool* inside) const;

  float lo() const { return lo_; }  ///< least and greatest u that pass; not used for stochastic rounding
  float hi() const { return hi_; }

 private:
  bool rounds_inside(float u, uint64_t index) const;

  const CodeGrid* grid_;
  float unit_ =
      1;  ///< rounding happens in multiples of this: 1, or a minifloat's topmost unit in the last place
  float first_ = 0;  ///< the outermost values of u on the grid
  float last_ = 0;
  float lo_ = 0;
  float hi_ = 0;
};

}  // namespace crumb

#include "libtorch/pass_band.h"

#include <algorithm>
#include <cmath>

#include "formats/number/minifloat.h"

namespace crumb {
namespace {

/// The float farthest from `in` on the way to `out` of which `holds` is true. Precondition: it is true of
/// `in`, false of `out`, and changes once between them.
template <class Predicate>
float last_that(float in, float out, const Predicate& holds) {
  for (;;) {
    float middle = in + (out - in) / 2;
    if (middle == in || middle == out) middle = std::nextafter(in, out);
    if (middle == out) return in;
    (holds(middle) ? in : out) = middle;
  }
}

}  // namespace

PassBand::PassBand(const CodeGrid& grid) : grid_(&grid) {
  const NumberFormat& number = *grid.number;
  switch (number.grid) {
    case Grid::kInteger:
    case Grid::kHalfInteger:
      first_ = grid.lo;
      last_ = grid.hi;
      break;
    case Grid::kMinifloat:
      last_ = grid.values[largest_finite_pattern(number)];
      first_ = -last_;
      unit_ = std::ldexp(1.0F, std::max(std::ilogb(last_), 1 - number.bias) - number.mantissa_bits);
      break;
    case Grid::kBinary:
      lo_ = -1;
      hi_ = 1;
      return;
    case Grid::kCodebook: {
      const auto end = static_cast<size_t>(1) << number.bits;
      lo_ = grid.values[0] - (grid.values[1] - grid.values[0]) / 2;
      hi_ = grid.values[end - 1] + (grid.values[end - 1] - grid.values[end - 2]) / 2;
      return;
    }
    case Grid::kExponent: return;
  }
  if (grid.round.rounding == Rounding::kStochastic) return;
  const auto holds = [&](float u) { return rounds_inside(u, 0); };
  lo_ = last_that(first_, first_ - 2 * unit_, holds);
  hi_ = last_that(last_, last_ + 2 * unit_, holds);
}

bool PassBand::rounds_inside(float u, uint64_t index) const {
  const float rounded = round_to_integer(u / unit_, grid_->round, index) * unit_;
  return rounded >= first_ && rounded <= last_;
}

void PassBand::inside(const float* x, size_t n, float s, float z, uint64_t index, bool* inside) const {
  const float add = grid_->number->grid == Grid::kHalfInteger ? grid_->offset : z;
  if (!(s > 0)) {
    for (size_t i = 0; i < n; ++i) inside[i] = x[i] == 0.0F;
  } else if (grid_->round.rounding == Rounding::kStochastic) {
    for (size_t i = 0; i < n; ++i) inside[i] = rounds_inside(x[i] / s + add, index + i);
  } else {
    const float lo = lo_, hi = hi_;
    for (size_t i = 0; i < n; ++i) {
      const float u = x[i] / s + add;
      inside[i] = (u >= lo) & (u <= hi);
    }
  }
}

}  // namespace crumb

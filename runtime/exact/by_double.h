// Functions of float32 computed in float64, by additions, multiplications and divisions in a fixed order, and
// rounded to float32 once. Their error is at most 0.51 units in the last place, and the bits are the same
// everywhere.
#pragma once

#include <cstdint>

namespace crumb::runtime::exact {

/// For any angle, however large; NaN for infinities.
float sin_of(float x);
float cos_of(float x);

/// x to the power of y, with the special cases of C's pow.
float pow_of(float x, float y);

/// Cosine and sine of k / n of a whole turn, not rounded: their error is below 2^-52. Precondition: k < n,
/// n < 2^60.
struct Turn {
  double cosine = 1, sine = 0;
};
Turn turn_of(std::uint64_t k, std::uint64_t n);

/// A number of the normal distribution from two of [0, 1), multiples of 2^-53 (Box and Muller, 1958). Not
/// rounded: its error is some units in the last place of float64.
double normal_of(double u, double v);

}  // namespace crumb::runtime::exact

// Functions of float32 by way of float64, in additions, multiplications and divisions in a fixed order:
// rounded to float32 once, so that they are off by 0.51 units in the last place at most, and the same bits
// everywhere.
#pragma once

namespace crumb::runtime::exact {

/// Of any angle, however large; NaN of infinities.
float sin_of(float x);
float cos_of(float x);

/// x to the power of y, with the special cases of C's pow.
float pow_of(float x, float y);

}  // namespace crumb::runtime::exact

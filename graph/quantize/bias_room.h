// Biases are added to sums of integers, so their scale is that of these, input times weight, however large
// they are compared with the weights. Where a bias exceeds its bits, the scale of its channel's weights grows
// until it fits.
#pragma once

#include "graph/quantize/plan.h"

namespace crumb::graph {

inline constexpr double kLeastOfWeights =
    25;  ///< dB that a channel's weights keep, at least, if their scale grows for a bias

/// Returns a weight's codes with scales under which a bias of that many bits fits. Channels whose bias fits
/// keep their codes. Others get a larger scale, unless their weights would keep less than kLeastOfWeights;
/// these stay as they are. `weight` has the floats that the spec's rounding takes. Only changes weights of
/// integers without zero point with one scale, or one for each channel.
QuantizedConstant with_room_for(const QuantizedConstant& codes, const Tensor& weight, const QuantSpec& spec,
                                const Tensor& bias, float input_scale, int bits);

}  // namespace crumb::graph

// Biases that are added to sums of integers stand at the scale of these, input times weight, however large they are beside the
// weights. Where a bias is beyond its bits, the scale of its channel's weights grows until it fits.
#pragma once

#include "graph/quantize/plan.h"

namespace crumb::graph {

inline constexpr double kLeastOfWeights =
    25;  ///< dB of a channel's weights under a scale that grew for a bias

/// The codes of a weight with room for a bias of so many bits: channels where it fits keep their codes, others have a larger scale,
/// unless their weights would have less than kLeastOfWeights; those stay as they are. `weight` in floats, as the spec's
/// rounding takes it. Weights whose scales are of no integers without zero point, one for each channel or for all, are left alone.
QuantizedConstant with_room_for(const QuantizedConstant& codes, const Tensor& weight, const QuantSpec& spec,
                                const Tensor& bias, float input_scale, int bits);

}  // namespace crumb::graph

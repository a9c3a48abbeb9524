// How far a value of a quantized tensor may move before another code is nearer.
#pragma once

#include <vector>

#include "quant/quantized_tensor.h"

namespace crumb {

/// Returns for each value, row by row, the distance to the nearer of its neighbours on the grid, times its
/// block's scale.
std::vector<float> spacings(const QuantizedTensor& tensor);

}  // namespace crumb

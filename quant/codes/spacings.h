// How far the values of a quantized tensor may go before another code is nearer.
#pragma once

#include <vector>

#include "quant/quantized_tensor.h"

namespace crumb {

/// For each value, row by row, the distance to the nearer of its neighbours on the grid, times its block's scale.
std::vector<float> spacings(const QuantizedTensor& tensor);

}  // namespace crumb

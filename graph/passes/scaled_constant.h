// Multiplies constants by numbers along one axis, for passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/tensor.h"

namespace crumb::graph {

/// Returns the distance, in elements, between neighbours along an axis of a row-major tensor.
std::size_t stride_along(std::span<const std::int64_t> shape, std::size_t axis);

/// Multiplies float32 values by one factor for each index of the axis, and rounds each once. Precondition:
/// the tensor is float32 and has as many indices on that axis as there are factors.
Tensor scaled_along(const Tensor& tensor, std::size_t axis, const std::vector<double>& factors);

}  // namespace crumb::graph

// Constants that passes multiply by numbers along one axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/tensor.h"

namespace crumb::graph {

/// How many elements lie between neighbours along an axis of a row-major tensor.
std::size_t stride_along(std::span<const std::int64_t> shape, std::size_t axis);

/// float32 values times one factor for each index of the axis, each rounded once.
/// Precondition: a float32 tensor that has this axis, with as many indices as there are factors.
Tensor scaled_along(const Tensor& tensor, std::size_t axis, const std::vector<double>& factors);

}  // namespace crumb::graph

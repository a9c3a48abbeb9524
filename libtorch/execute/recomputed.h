// Values that a backward pass computes again instead of keeping what lies between.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace crumb::libtorch {

using Compute = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// What `compute` makes of the inputs. With gradients, only the inputs are kept, and the backward pass
/// computes everything between once more (Chen et al. 2016, arXiv:1604.06174). Gradients reach the inputs,
/// and leaves that `compute` takes from elsewhere; what it takes must not follow from those. Precondition:
/// `compute` makes the same of the same.
std::vector<at::Tensor> recomputed(const std::vector<at::Tensor>& inputs, const Compute& compute);

}  // namespace crumb::libtorch

// Estimates mean and variance of batch norms anew, from samples.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "libtorch/execute/graph_module.h"

namespace crumb::qat {

/// Sets the statistics of each BatchNormalization of the module's graph in turn, from inputs that went
/// through the earlier ones with their new statistics. batches: the graph's inputs; not empty. instead: the
/// constants that the module runs with. No gradients.
void estimate_batch_norms(libtorch::GraphModule& module, const std::vector<std::vector<at::Tensor>>& batches,
                          const libtorch::Plan::Constants& instead);

}  // namespace crumb::qat

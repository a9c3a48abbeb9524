// Which layer of the float baseline a layer of a model is.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "jobs/evaluate/layers/layered_network.h"

namespace crumb::jobs {

struct MatchedLayers {
  std::vector<std::optional<std::size_t>> baseline;  ///< of each of the model's layers, its index there
  std::size_t by_place = 0;  ///< how many were matched by order, operator and shapes alone
};

/// Matches layers of the same operator (MatMul and Gemm are one) whose weights have the same shapes, as they
/// are or transposed: by names of weights, then of nodes, then of what they give, and what is left by order.
MatchedLayers match_layers(const LayeredNetwork& model, const LayeredNetwork& baseline);

/// A weight of one network's layer as the other's node takes it: transposed where one is [in, out] and the
/// other [out, in]. Precondition: the layers are matched; `weight` is its index in both.
graph::Tensor laid_out_for(const LayeredNetwork& network, const NetworkLayer& layer, std::size_t weight,
                           const LayeredNetwork& from_network, const NetworkLayer& from,
                           const graph::Tensor& values);

}  // namespace crumb::jobs

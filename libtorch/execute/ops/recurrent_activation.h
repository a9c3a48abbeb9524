// The activation functions that recurrent operators name in attributes.
#pragma once

#include <string>
#include <vector>

#include "libtorch/execute/operator.h"

namespace crumb::libtorch {

struct RecurrentActivation {
  using Function = at::Tensor (*)(const at::Tensor& x, double alpha, double beta);

  std::string name;  ///< in lower case
  Function function = nullptr;
  double alpha = 0, beta = 0;

  at::Tensor operator()(const at::Tensor& x) const { return function(x, alpha, beta); }
};

/// Those of a node: `usual` (in lower case) for every direction where the node names none. The numbers of
/// activation_alpha and activation_beta go to the functions that have such a parameter, in order.
std::vector<RecurrentActivation> recurrent_activations(const Call& call,
                                                       const std::vector<std::string>& usual,
                                                       std::size_t directions);

}  // namespace crumb::libtorch

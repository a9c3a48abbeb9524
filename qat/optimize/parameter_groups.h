// Groups an optimizer's parameters: weights with decay; norms, biases, scales and learned widths without.
#pragma once

#include <torch/optim/optimizer.h>

#include <vector>

namespace crumb::qat {

struct Rates {
  double learning_rate = 1e-3;
  double weight_decay = 0;         ///< of weights alone: never of scales, norms, biases
  double scale_learning_rate = 0;  ///< for the quantizers' parameters; 0: learning_rate
  /// For learned widths: with Adam about so many bits a step, whatever the loss. The widths must converge
  /// within half of the training.
  double bits_learning_rate = 0.05;
};

/// Returns three groups with options of AdamW: weights, others, scales; a fourth where widths are learned.
std::vector<torch::optim::OptimizerParamGroup> grouped(std::vector<at::Tensor> weights,
                                                       std::vector<at::Tensor> others,
                                                       std::vector<at::Tensor> scales, const Rates& rates,
                                                       std::vector<at::Tensor> bits = {});

}  // namespace crumb::qat

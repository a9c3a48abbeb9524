#include "qat/optimize/parameter_groups.h"

#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>

namespace crumb::qat {

std::vector<torch::optim::OptimizerParamGroup> grouped(std::vector<at::Tensor> weights,
                                                       std::vector<at::Tensor> others,
                                                       std::vector<at::Tensor> scales, const Rates& rates,
                                                       std::vector<at::Tensor> bits) {
  const auto group = [](std::vector<at::Tensor> parameters, double rate, double decay) {
    auto options = std::make_unique<torch::optim::AdamWOptions>(rate);
    options->weight_decay(decay);
    return torch::optim::OptimizerParamGroup(std::move(parameters), std::move(options));
  };
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.push_back(group(std::move(weights), rates.learning_rate, rates.weight_decay));
  groups.push_back(group(std::move(others), rates.learning_rate, 0));
  groups.push_back(group(std::move(scales),
                         rates.scale_learning_rate > 0 ? rates.scale_learning_rate : rates.learning_rate, 0));
  if (!bits.empty()) groups.push_back(group(std::move(bits), rates.bits_learning_rate, 0));
  return groups;
}

}  // namespace crumb::qat

#include "qat/optimize/weight_average.h"

#include <torch/nn/module.h>
#include <torch/utils.h>

#include <algorithm>

#include "base/error.h"

namespace crumb::qat {

WeightAverage::WeightAverage(torch::nn::Module& module, double decay)
    : parameters_(module.parameters()), decay_(decay) {
  if (!(decay >= 0 && decay < 1)) {
    throw Error("the decay of averages is " + std::to_string(decay) + ", expected 0 or more and less than 1");
  }
  for (const at::Tensor& parameter : parameters_) averages_.push_back(parameter.detach().clone());
}

void WeightAverage::update() {
  const torch::NoGradGuard no_gradients;
  ++steps_;
  const auto n = static_cast<double>(steps_);
  const double keeps = std::min(decay_, (1 + n) / (10 + n));
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    at::Tensor& average = averages_[i];
    if (average.device() != parameters_[i].device()) average = average.to(parameters_[i].device());
    average.lerp_(parameters_[i].detach().to(average.scalar_type()), 1 - keeps);
  }
}

void WeightAverage::restore(const std::vector<at::Tensor>& averages, std::int64_t steps) {
  if (averages.size() != averages_.size())
    throw Error("found averages of " + std::to_string(averages.size()) + " parameters, expected " +
                std::to_string(averages_.size()));
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    if (averages[i].sizes() != averages_[i].sizes())
      throw Error("the average of parameter " + std::to_string(i) + " has another shape than the parameter");
    averages_[i] = averages[i].detach().clone();
  }
  steps_ = steps;
}

WeightAverage::Use::Use(std::vector<at::Tensor> parameters, const std::vector<at::Tensor>& averages)
    : parameters_(std::move(parameters)) {
  const torch::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    kept_.push_back(parameters_[i].detach().clone());
    parameters_[i].copy_(averages[i]);
  }
}

WeightAverage::Use::~Use() {
  const torch::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < kept_.size(); ++i) parameters_[i].copy_(kept_[i]);
}

}  // namespace crumb::qat

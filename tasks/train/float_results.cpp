#include "tasks/train/float_results.h"

#include <torch/nn/module.h>
#include <torch/utils.h>

namespace crumb::tasks {

FloatResult FloatResults::get(const std::string& key, const std::function<FloatResult()>& train) {
  std::promise<FloatResult> promise;
  std::shared_future<FloatResult> result;
  bool trains = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = results_.find(key);
    trains = found == results_.end();
    result = trains ? promise.get_future().share() : found->second;
    if (trains) results_[key] = result;
  }
  if (trains) {
    try {
      promise.set_value(train());
    } catch (...) {
      promise.set_exception(std::current_exception());
      const std::lock_guard lock(mutex_);
      results_.erase(key);
    }
  }
  return result.get();
}

std::vector<at::Tensor> tensors_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> tensors;
  for (const at::Tensor& one : module.parameters()) tensors.push_back(one.detach().clone());
  for (const at::Tensor& one : module.buffers()) tensors.push_back(one.detach().clone());
  return tensors;
}

void put_tensors(torch::nn::Module& module, const std::vector<at::Tensor>& tensors) {
  const torch::NoGradGuard no_gradients;
  std::size_t i = 0;
  for (const at::Tensor& one : module.parameters()) one.copy_(tensors.at(i++));
  for (const at::Tensor& one : module.buffers()) one.copy_(tensors.at(i++));
}

}  // namespace crumb::tasks

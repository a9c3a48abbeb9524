// Float networks that several runs of one process begin from: trained once.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tasks/train/trainer.h"

namespace crumb::tasks {

struct FloatResult {
  std::vector<at::Tensor> parameters;  ///< and buffers, as the module has them when quantized training begins
  double metric = 0, longer_metric = 0;
  std::vector<EpochLine> log;
};

/// By several threads at once: the first trains, the others wait for it.
class FloatResults {
 public:
  /// What `train` gave for the same key, or gives now. Where it throws, all who wait get the exception.
  FloatResult get(const std::string& key, const std::function<FloatResult()>& train);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_future<FloatResult>> results_;
};

/// Copies of a module's parameters and buffers, and back.
std::vector<at::Tensor> tensors_of(const torch::nn::Module& module);
void put_tensors(torch::nn::Module& module, const std::vector<at::Tensor>& tensors);

}  // namespace crumb::tasks

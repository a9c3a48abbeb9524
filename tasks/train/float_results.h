// Float networks that several runs of one process begin from: each is trained once.
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
  std::vector<at::Tensor> parameters;  ///< and buffers, as in the module when quantized training begins
  std::vector<double> metrics, longer_metrics;  ///< as in RunState
  std::vector<EpochLine> log;
};

/// Several threads may call it at once: the first one trains, the others wait for it.
class FloatResults {
 public:
  /// Returns what `train` returned for the same key, or calls it now. Where it throws, all waiting threads
  /// get the exception.
  FloatResult get(const std::string& key, const std::function<FloatResult()>& train);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_future<FloatResult>> results_;
};

/// Copies a module's parameters and buffers, and sets them again.
std::vector<at::Tensor> tensors_of(const torch::nn::Module& module);
void put_tensors(torch::nn::Module& module, const std::vector<at::Tensor>& tensors);

}  // namespace crumb::tasks

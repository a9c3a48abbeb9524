#include "qat/activations/batch_norm_estimate.h"

#include <torch/utils.h>

namespace crumb::qat {
namespace {

/// Mean and variance of all values of a channel (axis 1) that were added.
class Moments {
 public:
  void add(const at::Tensor& values) {
    const at::Tensor channels = values.transpose(0, 1).reshape({values.size(1), -1}).to(at::kDouble);
    sum_ = sum_.defined() ? sum_ + channels.sum(1) : channels.sum(1);
    squares_ = squares_.defined() ? squares_ + channels.square().sum(1) : channels.square().sum(1);
    count_ += static_cast<double>(channels.size(1));
  }
  at::Tensor mean() const { return sum_ / count_; }
  at::Tensor variance() const { return (squares_ / count_ - mean().square()).clamp_min(0); }

 private:
  at::Tensor sum_, squares_;
  double count_ = 0;
};

}  // namespace

void estimate_batch_norms(libtorch::GraphModule& module, const std::vector<std::vector<at::Tensor>>& batches,
                          const libtorch::Plan::Constants& instead) {
  const torch::NoGradGuard no_gradients;
  for (const graph::Node& node : module.graph().nodes) {
    if (!node.is("BatchNormalization")) continue;
    Moments moments;
    const auto watch = [&](const std::string& value, libtorch::TypedTensor made) {
      if (value == node.inputs[0]) moments.add(made.tensor);
      return made;
    };
    for (const std::vector<at::Tensor>& batch : batches) {
      std::vector<libtorch::TypedTensor> inputs;
      for (std::size_t i = 0; i < batch.size(); ++i) {
        if (module.graph().inputs[i] == node.inputs[0]) moments.add(batch[i]);
        inputs.push_back(libtorch::typed(batch[i]));
      }
      (void)module.run(inputs, watch, instead);
    }
    module.constant(node.inputs[3]).copy_(moments.mean());
    module.constant(node.inputs[4]).copy_(moments.variance());
  }
}

}  // namespace crumb::qat

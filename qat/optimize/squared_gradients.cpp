#include "qat/optimize/squared_gradients.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/files/text.h"
#include "base/split_mix.h"
#include "graph/onnx/expand_functions.h"
#include "libtorch/device.h"
#include "libtorch/engine.h"
#include "libtorch/execute/graph_module.h"

namespace crumb::qat {
namespace {

using graph::GradientRequest;
using graph::Graph;
using libtorch::TypedTensor;

/// Keeps LibTorch on one thread while it lives.
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
};

/// Adds a leaf's squared gradient to a sum as soon as it is complete, and drops it.
class SquareSum final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit SquareSum(at::Tensor sum) : sum_(std::move(sum)) {}

  void operator()(const at::Tensor& leaf) override {
    sum_.addcmul_(leaf.grad(), leaf.grad());
    leaf.mutable_grad().reset();
  }

 private:
  at::Tensor sum_;
};

class SquaredGradientSums {
 public:
  SquaredGradientSums(Graph graph, const GradientRequest& requested)
      : requested_(requested), device_(libtorch::device_named(requested.device)), module_(std::move(graph)) {
    module_.to(device_);
    for (at::Tensor& parameter : module_.parameters()) parameter.requires_grad_(false);
    for (const std::string& name : requested.constants) {
      const at::Tensor leaf = module_.constant(name).detach().requires_grad_();
      sums_[name] = at::zeros_like(leaf, at::TensorOptions().dtype(at::kFloat).requires_grad(false));
      torch::autograd::impl::set_post_acc_grad_hooks(leaf, std::make_unique<SquareSum>(sums_[name]));
      leaves_[name] = libtorch::typed(leaf);
    }
  }

  void add(const std::vector<graph::Tensor>& batch) {
    const torch::AutoGradMode with_gradients(true);
    std::vector<TypedTensor> inputs;
    for (const graph::Tensor& input : batch) inputs.push_back(libtorch::to_typed(input, device_));
    const std::vector<TypedTensor> results = module_.run(inputs, {}, leaves_);
    if (requested_.loss == graph::SampleLoss::kNextTokens)
      add_next_tokens(inputs.at(0).tensor, results.at(0).tensor);
    else
      add_signs(results);
    ++batches_;
  }

  graph::SquaredGradients sums() const {
    graph::SquaredGradients made;
    for (const auto& [name, sum] : sums_) {
      const at::Tensor found = sum.to(at::kCPU).contiguous();
      if (!found.isfinite().all().item<bool>())
        throw Error("gradients by " + quote_text(name) + " are inf or NaN on the samples");
      const float* first = found.const_data_ptr<float>();
      made[name].assign(first, first + found.numel());
    }
    return made;
  }

 private:
  void add_next_tokens(const at::Tensor& ids, const at::Tensor& logits) const {
    if (ids.dim() != 2 || logits.dim() != 3 || ids.size(0) != 1 || logits.size(0) != 1 ||
        ids.size(1) != logits.size(1))
      throw Error("next tokens need ids [1, tokens] and logits [1, tokens, vocabulary], found " +
                  libtorch::text_of(libtorch::typed(ids)) + " and " +
                  libtorch::text_of(libtorch::typed(logits)));
    const std::int64_t positions = ids.size(1) - 1;
    if (positions < 1 || !logits.requires_grad()) return;
    torch::autograd::backward({at::cross_entropy_loss(
        logits[0].narrow(0, 0, positions), ids[0].narrow(0, 1, positions), {}, at::Reduction::Sum)});
  }

  void add_signs(const std::vector<TypedTensor>& results) const {
    std::vector<at::Tensor> roots;
    std::vector<std::size_t> numbers;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i].tensor.requires_grad()) continue;
      roots.push_back(results[i].tensor);
      numbers.push_back(i);
    }
    if (roots.empty()) return;
    const float size = 1 / std::sqrt(static_cast<float>(requested_.draws));
    for (std::size_t draw = 0; draw < requested_.draws; ++draw) {
      std::vector<at::Tensor> signs;
      for (std::size_t i = 0; i < roots.size(); ++i) {
        at::Tensor drawn = at::empty(roots[i].sizes(), at::kFloat);
        float* const first = drawn.data_ptr<float>();
        for (std::int64_t element = 0; element < drawn.numel(); ++element)
          first[element] = size * drawn_sign(batches_, draw, numbers[i], static_cast<std::size_t>(element));
        signs.push_back(drawn.to(roots[i].options().requires_grad(false)));
      }
      torch::autograd::backward(roots, signs, /*retain_graph=*/draw + 1 < requested_.draws);
    }
  }

  const GradientRequest& requested_;
  const at::Device device_;
  libtorch::GraphModule module_;
  libtorch::Plan::Constants leaves_;
  std::map<std::string, at::Tensor> sums_;
  std::size_t batches_ = 0;
};

class TorchGradients final : public graph::GradientEngine {
 public:
  graph::SquaredGradients squared_gradients(Graph graph, const graph::Batches& batches,
                                            const GradientRequest& requested) const override {
    const OneThread one_thread;
    SquaredGradientSums sums(graph::expand_functions(std::move(graph), libtorch::engine()), requested);
    batches([&](const std::vector<graph::Tensor>& batch) { sums.add(batch); });
    return sums.sums();
  }
};

}  // namespace

float drawn_sign(std::size_t batch, std::size_t draw, std::size_t result, std::size_t element) {
  return split_mix(split_mix(split_mix(split_mix(batch) ^ draw) ^ result) ^ element) >> 63 == 0 ? 1.0F
                                                                                                : -1.0F;
}

graph::GradientEngine& gradient_engine() {
  static TorchGradients engine;
  return engine;
}

}  // namespace crumb::qat

#include "libtorch/capture/capture.h"

#include <set>

#include "libtorch/capture/convert.h"
#include "libtorch/capture/network.h"
#include "libtorch/operators.h"

namespace crumb::libtorch {
namespace {

constexpr std::int64_t kFew = 2, kMore = 5;

/// The axis of the batch in every input; -1 for inputs without one.
Ints batch_axes(const Tensors& example, const CaptureOptions& options) {
  Ints axes;
  if (!options.batch_axes.empty() && options.batch_axes.size() != example.size()) {
    throw Error("batch_axes has " + std::to_string(options.batch_axes.size()) + " axes for " +
                std::to_string(example.size()) + " inputs");
  }
  std::int64_t batch = -1;
  for (std::size_t i = 0; i < example.size(); ++i) {
    const std::int64_t rank = example[i].dim();
    const std::int64_t axis = options.batch_axes.empty() ? (rank > 0 ? 0 : -1) : options.batch_axes[i];
    if (axis < -1 || axis >= rank) {
      throw Error("batch_axes: input " + std::to_string(i) + " has " + std::to_string(rank) +
                  " axes, expected one of them or -1, found " + std::to_string(axis));
    }
    axes.push_back(axis);
    if (axis < 0) continue;
    const std::int64_t size = example[i].size(axis);
    if (size == 0) throw Error("example input " + std::to_string(i) + " holds no sample");
    if (batch >= 0 && batch != size) {
      throw Error("example input " + std::to_string(i) + " holds " + std::to_string(size) +
                  " samples along axis " + std::to_string(axis) + ", another input " + std::to_string(batch) +
                  ": say with batch_axes along which axis the samples of each input lie");
    }
    batch = size;
  }
  return axes;
}

/// So many samples of the examples, again from the first where there are too few.
Tensors resized(const Tensors& example, const Ints& axes, std::int64_t samples) {
  Tensors inputs;
  for (std::size_t i = 0; i < example.size(); ++i) {
    at::Tensor input = example[i].detach();
    if (axes[i] >= 0) {
      const at::Tensor from =
          at::arange(samples, at::device(input.device()).dtype(at::kLong)) % input.size(axes[i]);
      input = input.index_select(axes[i], from);
    } else {
      input = input.clone();
    }
    inputs.push_back(input);
  }
  return inputs;
}

/// Puts every module into the mode it had, and every buffer to its values.
class Restore {
 public:
  explicit Restore(torch::nn::Module& module) : module_(module), mode_(module.is_training()) {
    for (const auto& one : module.modules(false)) modes_.emplace_back(one, one->is_training());
    const torch::NoGradGuard no_gradients;
    for (const at::Tensor& buffer : module.buffers()) buffers_.emplace_back(buffer, buffer.clone());
  }
  ~Restore() {
    module_.train(mode_);
    for (const auto& [module, training] : modes_) module->train(training);  // each after what holds it
    const torch::NoGradGuard no_gradients;
    for (auto& [buffer, values] : buffers_) buffer.copy_(values);
  }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  torch::nn::Module& module_;
  bool mode_;
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> modes_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;
};

}  // namespace

graph::Graph capture_function(const Forward& forward, const Tensors& example,
                              const std::vector<NamedState>& states, const CaptureOptions& options) {
  register_operators();
  if (example.empty()) throw Error("capture needs an example of every input");
  const Ints axes = batch_axes(example, options);
  const bool moves = std::ranges::any_of(axes, [](std::int64_t axis) { return axis >= 0; });
  Runs runs{.inputs = {resized(example, axes, kFew)}, .batch = {kFew, kMore}};
  if (moves) runs.inputs.push_back(resized(example, axes, kMore));
  const Recording recording(forward, runs, states);
  return convert(recording, runs.batch, axes, states, options);
}

graph::Graph capture(torch::nn::Module& module, const Tensors& example, const Forward& forward,
                     const CaptureOptions& options) {
  std::vector<NamedState> states;
  std::set<at::TensorImpl*> seen;
  for (const auto& one : module.named_parameters()) {
    if (seen.insert(one.value().unsafeGetTensorImpl()).second)
      states.push_back({one.key(), one.value(), true});
  }
  for (const auto& one : module.named_buffers()) {
    if (seen.insert(one.value().unsafeGetTensorImpl()).second)
      states.push_back({one.key(), one.value(), false});
  }
  const Restore restore(module);
  if (!options.batch_statistics) module.eval();
  return capture_function(forward, example, states, options);
}

}  // namespace crumb::libtorch

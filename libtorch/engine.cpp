#include "libtorch/engine.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include "base/files/text.h"
#include "graph/onnx/expand_functions.h"
#include "libtorch/capture/torchscript.h"
#include "libtorch/execute/graph_module.h"
#include "libtorch/execute/simulate_accumulators.h"

namespace crumb::libtorch {
namespace {

class TorchExecutable final : public graph::Executable {
 public:
  TorchExecutable(graph::Graph graph, at::Device device,
                  const analysis::AccumulatorSimulation* simulation = nullptr)
      : module_(std::move(graph)), device_(device) {
    module_.to(device);
    if (simulation) simulate(module_, *simulation);
    module_.freeze();
  }

  std::vector<graph::Tensor> run(const std::vector<graph::Tensor>& inputs,
                                 const Watch& watch) const override {
    const at::InferenceMode inference;
    std::vector<TypedTensor> values;
    values.reserve(inputs.size());
    for (const graph::Tensor& input : inputs) values.push_back(to_typed(input, device_));
    GraphModule::Watch tap;
    if (watch) {
      tap = [&](const std::string& value, TypedTensor made) {
        watch(value, to_constant(made));
        return made;
      };
    }
    std::vector<graph::Tensor> outputs;
    for (const TypedTensor& output : module_.run(std::move(values), tap))
      outputs.push_back(to_constant(output));
    return outputs;
  }

 private:
  GraphModule module_;
  at::Device device_;
};

class TorchEngine final : public graph::Engine {
 public:
  std::unique_ptr<graph::Executable> prepare(graph::Graph graph) const override {
    const at::NoGradGuard no_gradients;
    return std::make_unique<TorchExecutable>(graph::expand_functions(std::move(graph), *this), device_);
  }

  std::unique_ptr<graph::Executable> prepare_simulated(
      graph::Graph graph, const analysis::AccumulatorSimulation& simulation) const override {
    const at::NoGradGuard no_gradients;
    return std::make_unique<TorchExecutable>(graph::expand_functions(std::move(graph), *this), device_,
                                             &simulation);
  }

  bool knows(const graph::Node& node) const override {
    return find_operator(node.op, node.domain) != nullptr;
  }

  void use(const std::string& device, int threads) override {
    try {
      device_ = at::Device(device);
      at::empty({1}, device_);
    } catch (const c10::Error&) {
      throw usage_error("there is no device " + quote_text(device) + " here; 'cpu' is always there");
    }
    if (threads > 0) at::set_num_threads(threads);
  }

  std::vector<std::string> torchscript_inputs(const std::filesystem::path& path) const override {
    return libtorch::torchscript_inputs(path);
  }

  graph::Graph read_torchscript(const std::filesystem::path& path,
                                const std::vector<graph::Tensor>& example) const override {
    libtorch::Tensors inputs;
    for (const graph::Tensor& input : example) inputs.push_back(to_typed(input).tensor);
    return libtorch::read_torchscript(path, inputs);
  }

 private:
  at::Device device_ = at::kCPU;
};

}  // namespace

graph::Engine& engine() {
  static TorchEngine engine;
  return engine;
}

}  // namespace crumb::libtorch

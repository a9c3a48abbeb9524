#include "libtorch/engine.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include "graph/loop_parts.h"
#include "graph/onnx/expand_functions.h"
#include "libtorch/capture/torchscript.h"
#include "libtorch/device.h"
#include "libtorch/execute/graph_module.h"
#include "libtorch/execute/simulate_accumulators.h"

namespace crumb::libtorch {
namespace {

class TorchExecutable final : public graph::Executable {
 public:
  TorchExecutable(graph::Graph graph, at::Device device, const analysis::AccumulatorSimulation* simulation)
      : module_(std::move(graph)), device_(device) {
    module_.to(device);
    if (simulation) simulate(module_, *simulation);
    module_.freeze();
  }

  std::vector<graph::Tensor> run(const std::vector<graph::Tensor>& inputs,
                                 const graph::Watch& watch) const override {
    const at::InferenceMode inference;
    std::vector<TypedTensor> values;
    values.reserve(inputs.size());
    for (const graph::Tensor& input : inputs) values.push_back(to_typed(input, device_));
    GraphModule::Watch tap;
    if (watch.show) {
      tap = [&](const std::string& value, TypedTensor made) {
        if (watch.wants(value)) watch.show(value, to_constant(made));
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

class TorchEngine final : public graph::Engine, public analysis::RegisterEngine, public graph::EngineDevice {
 public:
  std::unique_ptr<graph::Executable> prepare(graph::Graph graph) const override {
    return prepared(std::move(graph), nullptr);
  }

  std::unique_ptr<graph::Executable> prepare(
      graph::Graph graph, const analysis::AccumulatorSimulation& simulation) const override {
    return prepared(std::move(graph), &simulation);
  }

  bool knows(const graph::Node& node) const override {
    const auto has_kernel = [](const graph::Node& one) {
      return find_operator(one.op, one.domain) != nullptr;
    };
    return graph::unknown_nodes(node, has_kernel).empty();
  }

  void use(const std::string& device, int threads) override {
    device_ = device_named(device);
    if (threads > 0) at::set_num_threads(threads);
  }

 private:
  std::unique_ptr<graph::Executable> prepared(graph::Graph graph,
                                              const analysis::AccumulatorSimulation* simulation) const {
    const at::NoGradGuard no_gradients;
    return std::make_unique<TorchExecutable>(graph::expand_functions(std::move(graph), *this), device_,
                                             simulation);
  }

  at::Device device_ = at::kCPU;
};

TorchEngine& torch_engine() {
  static TorchEngine engine;
  return engine;
}

class ArchiveReader final : public graph::TorchScriptReader {
 public:
  std::vector<graph::TorchScriptArgument> arguments(const std::filesystem::path& path) const override {
    return torchscript_arguments(path);
  }

  graph::Graph read(const std::filesystem::path& path, const graph::TorchScriptCall& call) const override {
    Tensors inputs;
    for (const graph::Tensor& input : call.inputs) inputs.push_back(to_typed(input).tensor);
    return read_torchscript(path, inputs, call.constants, {.batch_axes = call.batch_axes});
  }
};

}  // namespace

graph::Engine& engine() { return torch_engine(); }

analysis::RegisterEngine& register_engine() { return torch_engine(); }

graph::EngineDevice& engine_device() { return torch_engine(); }

graph::TorchScriptReader& torchscript_reader() {
  static ArchiveReader reader;
  return reader;
}

}  // namespace crumb::libtorch

#include "cli/run/runtime_registers.h"

#include <vector>

#include "analysis/accumulator/run_in_registers.h"
#include "runtime/engine.h"

namespace crumb::cli {
namespace {

using graph::Tensor;

std::vector<Tensor> tensors_of(const runtime::Call& call) {
  std::vector<Tensor> inputs(call.inputs());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (call.has(i)) inputs[i] = call.in(i).tensor();
  }
  return inputs;
}

}  // namespace

std::unique_ptr<graph::Executable> RuntimeRegisters::prepare(
    graph::Graph graph, const analysis::AccumulatorSimulation& simulation) const {
  runtime::Substitutes instead;
  for (const auto& product : simulation.products) {
    if (product.layer->rule().requantizes) continue;
    instead[product.output] = [layer = product.layer](runtime::Call& call) {
      call.give(0, runtime::Array::of(
                       analysis::run_in_registers(*layer, call.node(), tensors_of(call), call.threads())));
    };
    if (product.bias_sum.empty()) continue;
    instead[product.bias_sum] = [output = product.output](runtime::Call& call) {
      call.give(0, runtime::Array::of(analysis::pass_on_sum(call.node(), output, tensors_of(call))));
    };
  }
  return runtime::Engine(threads_).prepare_in_floats(std::move(graph), instead);
}

}  // namespace crumb::cli

#include "libtorch/execute/simulate_accumulators.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "analysis/accumulator/run_in_registers.h"
#include "libtorch/execute/ops/integer_products.h"

namespace crumb::libtorch {
namespace {

std::vector<graph::Tensor> constants_of(const std::vector<TypedTensor>& arguments) {
  std::vector<graph::Tensor> constants;
  for (const TypedTensor& one : arguments)
    constants.push_back(one.defined() ? to_constant(one) : graph::Tensor());
  return constants;
}

at::Device device_of(const std::vector<TypedTensor>& arguments) {
  for (const TypedTensor& one : arguments) {
    if (one.defined()) return one.tensor.device();
  }
  return at::kCPU;
}

Outputs run(analysis::SimulatedLayer& layer, const graph::Node& node,
            const std::vector<TypedTensor>& arguments) {
  const graph::Tensor made =
      analysis::run_in_registers(layer, node, constants_of(arguments), at::get_num_threads());
  TypedTensor output = to_typed(made, device_of(arguments));
  if (!layer.rule().requantizes) return {std::move(output)};
  const Call call(node, arguments);
  return layer.kind() == analysis::ProductLayer::Kind::kConvolution ? quantized_conv(call, output.tensor)
                                                                    : quantized_matmul(call, output.tensor);
}

}  // namespace

void simulate(GraphModule& module, const analysis::AccumulatorSimulation& simulation) {
  for (const auto& product : simulation.products) {
    module.replace_maker(product.output, [layer = product.layer](const graph::Node& node,
                                                                 const std::vector<TypedTensor>& arguments) {
      return run(*layer, node, arguments);
    });
    if (product.bias_sum.empty()) continue;
    module.replace_maker(product.bias_sum,
                         [output = product.output](const graph::Node& node,
                                                   const std::vector<TypedTensor>& arguments) -> Outputs {
                           const graph::Tensor made =
                               analysis::pass_on_sum(node, output, constants_of(arguments));
                           return {to_typed(made, device_of(arguments))};
                         });
  }
}

}  // namespace crumb::libtorch

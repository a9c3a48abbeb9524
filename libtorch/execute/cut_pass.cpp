#include "libtorch/execute/cut_pass.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

namespace crumb::libtorch {
namespace {

at::Tensor leaf(const at::Tensor& of) {
  return of.detach().requires_grad_(at::GradMode::is_enabled() && of.requires_grad());
}

}  // namespace

CutNetwork::CutNetwork(const GraphModule& module, const std::string& cut,
                       const std::vector<std::string>& recomputed)
    : module_(module),
      before_(module.part(module.graph().inputs, {cut})),
      behind_(module.part({cut}, {module.graph().outputs.at(0)})) {
  before_.recompute_between(module.graph(), recomputed);
}

CutPass::CutPass(const CutNetwork& network, std::vector<TypedTensor> inputs, Plan::Constants constants)
    : network_(network), constants_(std::move(constants)) {
  for (const auto& [name, constant] : constants_)
    leaves_[name] = {constant.tensor.requires_grad() ? leaf(constant.tensor) : constant.tensor,
                     constant.type};
  computed_ = network.before_.run(network.module_.graph(), std::move(inputs), {}, constants_).at(0).tensor;
  states_ = leaf(computed_);
}

at::Tensor CutPass::behind(const at::Tensor& states) const {
  return network_.behind_.run(network_.module_.graph(), {typed(states)}, {}, leaves_).at(0).tensor;
}

void CutPass::backward() {
  std::vector<at::Tensor> roots, gradients;
  const auto go_on = [&](const at::Tensor& from, const at::Tensor& gathered) {
    if (!gathered.grad().defined() || !from.requires_grad()) return;
    roots.push_back(from);
    gradients.push_back(gathered.grad());
  };
  go_on(computed_, states_);
  for (const auto& [name, constant] : constants_)
    if (!constant.tensor.is_same(leaves_.at(name).tensor)) go_on(constant.tensor, leaves_.at(name).tensor);
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
}

}  // namespace crumb::libtorch

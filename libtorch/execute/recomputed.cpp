#include "libtorch/execute/recomputed.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace crumb::libtorch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Held : torch::CustomClassHolder {
  explicit Held(Compute by) : compute(std::move(by)) {}
  Compute compute;
};

/// One argument, so that autograd takes it for no input.
struct Argument {
  c10::intrusive_ptr<Held> held;
};

struct Recomputed : torch::autograd::Function<Recomputed> {
  /// A list and no vector, which autograd would not look into.
  static variable_list forward(AutogradContext* context, at::TensorList inputs, const Argument& argument) {
    context->saved_data["compute"] = c10::IValue::make_capsule(argument.held);
    context->save_for_backward(inputs.vec());
    return argument.held->compute(inputs.vec());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const c10::intrusive_ptr<torch::CustomClassHolder> capsule = context->saved_data["compute"].toCapsule();
    const auto held = c10::static_intrusive_pointer_cast<Held>(capsule);
    const variable_list saved = context->get_saved_variables();
    variable_list inputs, reached(saved.size() + 1);
    for (const at::Tensor& input : saved)
      inputs.push_back(input.detach().requires_grad_(input.requires_grad()));
    variable_list outputs, their_gradients;
    {
      const at::AutoGradMode with_gradients(true);
      const variable_list made = held->compute(inputs);
      for (std::size_t i = 0; i < made.size(); ++i) {
        if (!gradients[i].defined() || !made[i].requires_grad()) continue;
        outputs.push_back(made[i]);
        their_gradients.push_back(gradients[i]);
      }
    }
    if (outputs.empty()) return reached;
    torch::autograd::backward(outputs, their_gradients);
    for (std::size_t i = 0; i < inputs.size(); ++i) reached[i] = inputs[i].grad();
    return reached;
  }
};

}  // namespace

std::vector<at::Tensor> recomputed(const std::vector<at::Tensor>& inputs, const Compute& compute) {
  const bool wants_gradients =
      at::GradMode::is_enabled() &&
      std::ranges::any_of(inputs, [](const at::Tensor& input) { return input.requires_grad(); });
  if (!wants_gradients) return compute(inputs);
  return Recomputed::apply(at::TensorList(inputs), Argument{c10::make_intrusive<Held>(compute)});
}

}  // namespace crumb::libtorch

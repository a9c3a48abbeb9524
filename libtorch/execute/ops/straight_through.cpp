#include "libtorch/execute/ops/straight_through.h"

#include <torch/csrc/autograd/custom_function.h>

namespace crumb::libtorch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// One argument, so that autograd takes none of them for an input.
struct Constants {
  at::Tensor made, pass, slope;
};

struct StraightThrough : torch::autograd::Function<StraightThrough> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& u, const Constants& constants) {
    context->save_for_backward({constants.pass, constants.slope});
    context->saved_data["type"] = u.scalar_type();
    return constants.made;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    at::Tensor gradient = gradients[0];
    if (!gradient.defined()) return {at::Tensor(), at::Tensor()};
    if (saved[0].defined()) gradient = at::where(saved[0], gradient, 0.0);
    if (saved[1].defined()) gradient = gradient * saved[1];
    return {gradient.to(context->saved_data["type"].toScalarType()), at::Tensor()};
  }
};

}  // namespace

at::Tensor straight_through(const at::Tensor& u, at::Tensor made, const at::Tensor& pass,
                            const at::Tensor& slope) {
  if (!differentiated(u)) return made;
  return StraightThrough::apply(u, Constants{std::move(made), pass, slope});
}

}  // namespace crumb::libtorch

// Arithmetic, comparison, logic and bit operators, with ONNX's broadcasting.
#include <torch/torch.h>

#include "models/torch/execute/ops/families.h"

namespace crumb::torch_ops {
namespace {

using graph::ElementType;

/// Input 1 as broadcasting sees it. Before operator set 7 it had to be asked for: `axis` says which axis of input 0
/// the first of input 1 goes with.
at::Tensor second(const Call& call) {
  at::Tensor b = call.tensor(1);
  if (call.version() >= 7 || call.int_or("broadcast", 0) == 0 || !call.node().has("axis")) return b;
  const std::int64_t rank = call.tensor(0).dim();
  const std::int64_t axis = usual_axis(call, call.int_or("axis", 0), rank);
  for (std::int64_t i = axis + b.dim(); i < rank; ++i) b = b.unsqueeze(-1);
  return b;
}

template <at::Tensor (*Function)(const at::Tensor&, const at::Tensor&)>
Outputs arithmetic(const Call& call) {
  return like_input(call, Function(call.tensor(0), second(call)));
}

template <at::Tensor (*Function)(const at::Tensor&, const at::Tensor&)>
Outputs comparison(const Call& call) {
  return one(Function(call.tensor(0), second(call)), ElementType::kBool);
}

template <at::Tensor (*Function)(const at::Tensor&)>
Outputs unary(const Call& call) {
  return like_input(call, Function(call.tensor(0)));
}

at::Tensor plus(const at::Tensor& a, const at::Tensor& b) { return a + b; }
at::Tensor minus(const at::Tensor& a, const at::Tensor& b) { return a - b; }
at::Tensor times(const at::Tensor& a, const at::Tensor& b) { return a * b; }
at::Tensor quotient(const at::Tensor& a, const at::Tensor& b) {
  return a.is_floating_point() || a.is_complex() ? a / b : at::div(a, b, "trunc");
}

constexpr OperatorRow kRows[] = {
    {"Add", arithmetic<plus>},     {"Sub", arithmetic<minus>},    {"Mul", arithmetic<times>},
    {"Div", arithmetic<quotient>}, {"Equal", comparison<at::eq>}, {"Neg", unary<at::neg>},
    {"Abs", unary<at::abs>},
};

}  // namespace

std::span<const OperatorRow> elementwise_operators() { return kRows; }

}  // namespace crumb::torch_ops

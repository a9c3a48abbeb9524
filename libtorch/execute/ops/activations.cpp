// Activations, Relu to Softmax.
#include <ATen/ATen.h>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/integers.h"
#include "libtorch/execute/ops/random.h"
#include "libtorch/execute/ops/widen.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;

template <at::Tensor (*Function)(const at::Tensor&)>
Outputs unary(const Call& call) {
  return like_input(call, Function(call.tensor(0)));
}

Outputs relu(const Call& call) {
  if (!call.may_overwrite(0)) return like_input(call, at::relu(call.tensor(0)));
  at::Tensor x = call.tensor(0);
  return like_input(call, at::relu_(x));
}

Outputs leaky_relu(const Call& call) {
  return like_input(call, at::leaky_relu(call.tensor(0), call.float_or("alpha", 0.01F)));
}

/// Before operator set 7 a slope of as many numbers as there are channels goes with axis 1.
Outputs prelu(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  at::Tensor slope = call.tensor(1);
  if (graph::info(call.type(0)).kind == graph::ElementKind::kUnsigned) return {call.in(0)};
  if (call.version() < 7 && slope.dim() == 1 && x.dim() > 1 && slope.numel() > 1) {
    for (std::int64_t axis = 2; axis < x.dim(); ++axis) slope = slope.unsqueeze(-1);
  }
  return like_input(call, at::where(x < 0, slope * x, x).view_as(x));
}

Outputs elu(const Call& call) { return like_input(call, at::elu(call.tensor(0), call.float_or("alpha", 1))); }

Outputs celu(const Call& call) {
  const double alpha = call.float_or("alpha", 1);
  return like_input(call, at::elu(call.tensor(0), alpha, 1, 1 / alpha));
}

Outputs selu(const Call& call) {
  const bool early = call.version() < 6;
  const float alpha = call.float_or("alpha", early ? 1.6732F : 1.67326319217681884765625F);
  const float gamma = call.float_or("gamma", early ? 1.0507F : 1.05070102214813232421875F);
  return like_input(call, at::elu(call.tensor(0), alpha, gamma));
}

Outputs gelu(const Call& call) {
  return like_input(call, at::gelu(call.tensor(0), call.text_or("approximate", "none")));
}

Outputs hard_sigmoid(const Call& call) {
  const double alpha = call.float_or("alpha", 0.2F), beta = call.float_or("beta", 0.5F);
  return like_input(call, (widened(call.tensor(0)) * alpha + beta).clamp(0, 1));
}

Outputs swish(const Call& call) {
  const at::Tensor x = widened(call.tensor(0));
  return like_input(call, x * at::sigmoid(x * static_cast<double>(call.float_or("alpha", 1))));
}

/// The threshold is where the answer is the input to double precision.
Outputs softplus(const Call& call) { return like_input(call, at::softplus(call.tensor(0), 1, 40)); }

Outputs softsign(const Call& call) {
  const at::Tensor x = widened(call.tensor(0));
  return like_input(call, x / (x.abs() + 1));
}

Outputs thresholded_relu(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  return like_input(call, at::where(x > call.float_or("alpha", 1), x, at::zeros({}, x.options())));
}

/// Integers are computed in double and truncated.
Outputs shrink(const Call& call) {
  const at::Tensor x = to_real(call.in(0));
  const double bias = call.float_or("bias", 0), lambda = call.float_or("lambd", 0.5F);
  const at::Tensor zero = at::zeros({}, x.options());
  return {from_real(at::where(x < -lambda, x + bias, at::where(x > lambda, x - bias, zero)), call.type(0))};
}

at::Tensor hardmax_of(const at::Tensor& x, std::int64_t axis) {
  if (x.numel() == 0) return x;
  if (x.dim() == 0) return at::ones_like(x);
  return at::zeros_like(x).scatter(axis, x.argmax(axis, true), 1);
}
at::Tensor softmax_of(const at::Tensor& x, std::int64_t axis) { return at::softmax(x, axis); }
at::Tensor log_softmax_of(const at::Tensor& x, std::int64_t axis) { return at::log_softmax(x, axis); }

/// Along one axis since operator set 13; before, over everything from that axis on.
template <at::Tensor (*Function)(const at::Tensor&, std::int64_t)>
Outputs along_axis(const Call& call) {
  const at::Tensor x = widened(call.tensor(0));
  if (x.dim() == 0) return like_input(call, Function(x, 0));
  const bool flattens = call.version() < 13;
  const std::int64_t axis = usual_axis(call, call.int_or("axis", flattens ? 1 : -1), x.dim());
  if (!flattens) return like_input(call, Function(x, axis));
  const std::int64_t outer = c10::multiply_integers(x.sizes().slice(0, static_cast<std::size_t>(axis)));
  const std::int64_t inner = c10::multiply_integers(x.sizes().slice(static_cast<std::size_t>(axis)));
  return like_input(call, Function(x.reshape({outer, inner}), 1).reshape(x.sizes()));
}

/// Drops nothing unless operator set 12's training_mode asks for it: `is_test` of the first versions, whose
/// default is training, says how the file was written and not what it is run for.
Outputs dropout(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const bool trains = call.version() >= 12 && call.has(2) && call.tensor(2).item<bool>();
  const double ratio = !trains ? 0 : call.has(1) ? call.tensor(1).item<double>() : 0.5;
  if (ratio < 0 || ratio >= 1) {
    call.fail("expected a ratio of 0 or more and below 1, found " + std::to_string(ratio));
  }
  at::Tensor mask = at::ones(x.sizes(), x.options().dtype(at::kBool));
  Outputs outputs = {call.in(0)};
  if (ratio > 0) {
    mask = random_source(call).uniform(x.sizes(), x.device()) >= ratio;
    outputs = like_input(call, x * mask / (1 - ratio));
  }
  if (call.version() < 10) {
    outputs.push_back({mask.to(x.scalar_type()), call.type(0)});
  } else {
    outputs.push_back({mask, ElementType::kBool});
  }
  return outputs;
}

Outputs identity(const Call& call) { return {call.in(0)}; }

constexpr OperatorRow kActivationsRows[] = {
    {"Relu", relu},
    {"LeakyRelu", leaky_relu},
    {"PRelu", prelu},
    {"Elu", elu},
    {"Celu", celu},
    {"Selu", selu},
    {"Gelu", gelu},
    {"Sigmoid", unary<at::sigmoid>},
    {"HardSigmoid", hard_sigmoid},
    {"HardSwish", unary<at::hardswish>},
    {"Swish", swish},
    {"Mish", unary<at::mish>},
    {"Tanh", unary<at::tanh>},
    {"Softplus", softplus},
    {"Softsign", softsign},
    {"ThresholdedRelu", thresholded_relu},
    {"Shrink", shrink},
    {"Softmax", along_axis<softmax_of>},
    {"LogSoftmax", along_axis<log_softmax_of>},
    {"Hardmax", along_axis<hardmax_of>},
    {"Dropout", dropout},
    {"Identity", identity},
};

}  // namespace

std::span<const OperatorRow> activation_operators() { return kActivationsRows; }

}  // namespace crumb::libtorch

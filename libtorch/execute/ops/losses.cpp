// NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss, and the optimizers of ai.onnx.preview.training.
#include <ATen/ATen.h>

#include <cmath>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/widen.h"

namespace crumb::libtorch {
namespace {

constexpr std::string_view kTrainingDomain = "ai.onnx.preview.training";

/// The loss of log probabilities [N, C, ...] for the classes that input 1 gives [N, ...], weighted by input 2
/// [C].
at::Tensor likelihood_loss(const Call& call, const at::Tensor& log_probabilities) {
  const at::Tensor target = call.tensor(1).to(at::kLong);
  if (log_probabilities.dim() < 2 || target.dim() != log_probabilities.dim() - 1) {
    call.fail("scores " + text_of(call.in(0)) + " for targets " + text_of(call.in(1)));
  }
  const std::int64_t classes = log_probabilities.size(1);
  at::Tensor counted = at::ones_like(target, target.options().dtype(at::kBool));
  if (call.node().has("ignore_index")) counted = target != call.int_or("ignore_index", 0);
  const at::Tensor chosen = target.masked_fill(counted.logical_not(), 0);
  if (chosen.lt(0).logical_or(chosen.ge(classes)).logical_and(counted).any().item<bool>()) {
    call.fail("a target is outside the " + std::to_string(classes) + " classes");
  }
  at::Tensor weight = counted.to(log_probabilities.scalar_type());
  if (call.has(2)) {
    const at::Tensor by_class = widened(call.tensor(2));
    if (by_class.dim() != 1 || by_class.size(0) != classes) {
      call.fail("weights " + text_of(call.in(2)) + " for " + std::to_string(classes) + " classes");
    }
    weight =
        weight * by_class.to(weight.scalar_type()).index_select(0, chosen.flatten()).reshape(chosen.sizes());
  }
  // An ignored element counts nothing, whatever its probability: zero times infinity must not come up.
  const at::Tensor picked =
      log_probabilities.gather(1, chosen.unsqueeze(1)).squeeze(1).masked_fill(counted.logical_not(), 0);
  const at::Tensor loss = picked.neg() * weight;
  const std::string reduction = call.text_or("reduction", "mean");
  if (reduction == "none") return loss;
  if (reduction == "sum") return loss.sum();
  if (reduction != "mean") call.fail("reduction is \"" + reduction + "\", expected none, sum or mean");
  return loss.sum() / weight.sum();
}

Outputs negative_log_likelihood(const Call& call) {
  return like_input(call, likelihood_loss(call, widened(call.tensor(0))));
}

Outputs softmax_cross_entropy(const Call& call) {
  const at::Tensor scores = widened(call.tensor(0));
  if (scores.dim() < 2) call.fail("expected scores of 2 or more axes, found " + text_of(call.in(0)));
  const at::Tensor log_probabilities = at::log_softmax(scores, 1);
  return {wrapped(likelihood_loss(call, log_probabilities), call.type(0)),
          wrapped(log_probabilities, call.type(0))};
}

/// The inputs of an optimizer: rate and step, then as many tensors of each kind.
struct Training {
  at::Tensor rate;
  std::int64_t step = 0;
  std::size_t tensors = 0, kinds = 0;

  Training(const Call& call, std::size_t kinds_of_tensors) : kinds(kinds_of_tensors) {
    const auto steps = call.ints(1);
    if (call.inputs() < 2 + kinds || (call.inputs() - 2) % kinds != 0 || steps.size() != 1) {
      call.fail("expected a rate, a step and " + std::to_string(kinds) + " inputs for each tensor, found " +
                std::to_string(call.inputs()) + " inputs");
    }
    rate = call.tensor(0);
    step = steps[0];
    tensors = (call.inputs() - 2) / kinds;
  }
  std::size_t input(std::size_t kind, std::size_t tensor) const { return 2 + kind * tensors + tensor; }
  std::size_t output(std::size_t kind, std::size_t tensor) const { return kind * tensors + tensor; }
};

at::Tensor regular(const Call& call, const at::Tensor& x, const at::Tensor& gradient) {
  return gradient + x * static_cast<double>(call.float_or("norm_coefficient", 0));
}

Outputs momentum(const Call& call) {
  const Training training(call, 3);
  const double alpha = call.float_or("alpha", 0);
  const double beta = training.step > 0 ? call.float_or("beta", 1) : 1;
  const std::string mode = call.text_or("mode", "standard");
  if (mode != "standard" && mode != "nesterov") {
    call.fail("mode is \"" + mode + "\", expected standard or nesterov");
  }
  Outputs outputs(2 * training.tensors);
  for (std::size_t i = 0; i < training.tensors; ++i) {
    const std::size_t at = training.input(0, i);
    const at::Tensor& x = call.tensor(at);
    const at::Tensor g = regular(call, x, call.tensor(training.input(1, i)));
    const at::Tensor v = call.tensor(training.input(2, i)) * alpha + g * beta;
    const at::Tensor direction = mode == "standard" ? v : g + v * alpha;
    outputs[training.output(0, i)] = wrapped(x - training.rate * direction, call.type(at));
    outputs[training.output(1, i)] = wrapped(v, call.type(training.input(2, i)));
  }
  return outputs;
}

Outputs adagrad(const Call& call) {
  const Training training(call, 3);
  const double decay = call.float_or("decay_factor", 0), epsilon = call.float_or("epsilon", 1e-6F);
  const at::Tensor rate = training.rate / (1 + static_cast<double>(training.step) * decay);
  Outputs outputs(2 * training.tensors);
  for (std::size_t i = 0; i < training.tensors; ++i) {
    const std::size_t at = training.input(0, i);
    const at::Tensor& x = call.tensor(at);
    const at::Tensor g = regular(call, x, call.tensor(training.input(1, i)));
    const at::Tensor h = call.tensor(training.input(2, i)) + g * g;
    outputs[training.output(0, i)] = wrapped(x - rate * g / (h.sqrt() + epsilon), call.type(at));
    outputs[training.output(1, i)] = wrapped(h, call.type(training.input(2, i)));
  }
  return outputs;
}

Outputs adam(const Call& call) {
  const Training training(call, 4);
  const double alpha = call.float_or("alpha", 0.9F), beta = call.float_or("beta", 0.999F);
  const double epsilon = call.float_or("epsilon", 1e-6F);
  const double after = call.float_or("norm_coefficient_post", 0);
  at::Tensor rate = training.rate;
  if (training.step > 0) {
    const auto step = static_cast<double>(training.step);
    rate = rate * (std::sqrt(1 - std::pow(beta, step)) / (1 - std::pow(alpha, step)));
  }
  Outputs outputs(3 * training.tensors);
  for (std::size_t i = 0; i < training.tensors; ++i) {
    const std::size_t at = training.input(0, i);
    const at::Tensor& x = call.tensor(at);
    const at::Tensor g = regular(call, x, call.tensor(training.input(1, i)));
    const at::Tensor v = call.tensor(training.input(2, i)) * alpha + g * (1 - alpha);
    const at::Tensor h = call.tensor(training.input(3, i)) * beta + g * g * (1 - beta);
    const at::Tensor moved = x - rate * (v / (h.sqrt() + epsilon));
    outputs[training.output(0, i)] = wrapped(moved * (1 - after), call.type(at));
    outputs[training.output(1, i)] = wrapped(v, call.type(training.input(2, i)));
    outputs[training.output(2, i)] = wrapped(h, call.type(training.input(3, i)));
  }
  return outputs;
}

constexpr OperatorRow kLossesRows[] = {
    {"NegativeLogLikelihoodLoss", negative_log_likelihood},
    {"SoftmaxCrossEntropyLoss", softmax_cross_entropy},
    {"Momentum", momentum, kTrainingDomain},
    {"Adagrad", adagrad, kTrainingDomain},
    {"Adam", adam, kTrainingDomain},
};

}  // namespace

std::span<const OperatorRow> loss_operators() { return kLossesRows; }

}  // namespace crumb::libtorch

#include "libtorch/execute/ops/ml_scores.h"

#include <ATen/ATen.h>

#include <numbers>

#include "libtorch/execute/ops/shapes.h"

namespace crumb::libtorch {
namespace {

/// exp(x - max) over its sum, where what is almost 0 stays almost 0.
at::Tensor softmax_zero(const at::Tensor& scores) {
  if (scores.numel() == 0) return scores;
  const at::Tensor most = scores.amax(-1, true);
  const at::Tensor parts = at::where(scores.abs() > 1e-7, (scores - most).exp(), scores * (-most).exp());
  const at::Tensor sum = parts.sum(-1, true);
  return at::where(sum == 0, at::full_like(parts, 0.5), parts / sum);
}

/// The probit function by the approximation of the error function's inverse that other runtimes use.
at::Tensor probit(const at::Tensor& scores) {
  constexpr double a = 0.147;
  const at::Tensor x = scores * 2 - 1;
  const at::Tensor log = ((1 - x) * (1 + x)).log();
  const at::Tensor v = log / 2 + 2 / (std::numbers::pi * a);
  const at::Tensor inverse = x.sign() * ((v * v - log / a).sqrt() - v).sqrt();
  return at::where(log.isinf(), at::zeros_like(x), inverse) * std::numbers::sqrt2;
}

}  // namespace

at::Tensor post_transformed(const Call& call, const at::Tensor& scores, const std::string& name) {
  if (name == "NONE") return scores;
  if (name == "SOFTMAX") return scores.softmax(-1);
  if (name == "LOGISTIC") return scores.sigmoid();
  if (name == "SOFTMAX_ZERO") return softmax_zero(scores);
  if (name == "PROBIT") return probit(scores);
  call.fail("expected post_transform NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT, found another");
}

at::Tensor features_of(const Call& call) {
  at::Tensor x = call.tensor(0);
  if (x.dim() == 1) x = x.unsqueeze(0);
  if (x.dim() != 2) call.fail("expected rank 1 or 2, found " + text_of(call.in(0)));
  return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}

at::Tensor with_second_class(const at::Tensor& score, SecondClass second) {
  return at::cat({second == SecondClass::kComplement ? 1 - score : -score, score}, -1);
}

TypedTensor best_labels(const Call& call, const at::Tensor& scores, const std::vector<std::int64_t>& labels) {
  expect_length(call, "class labels", labels.size(), scores.size(1));
  if (labels.empty()) call.fail("expected class labels, found none");
  const at::Tensor known = at::tensor(labels, at::kLong).to(scores.device());
  return {known.index_select(0, scores.argmax(1)), graph::ElementType::kInt64};
}

std::vector<double> numbers_of(const Call& call, const std::string& name) {
  const std::string in_tensor = name + "_as_tensor";
  if (call.node().has(in_tensor)) {
    const auto* held = std::get_if<graph::Tensor>(&call.node().attributes.at(in_tensor));
    if (!held) call.fail("expected a tensor in " + in_tensor);
    const at::Tensor values = to_typed(*held).tensor.to(at::kDouble).contiguous();
    return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
  }
  const auto values = call.node().floats_or(name, {});
  return {values.begin(), values.end()};
}

}  // namespace crumb::libtorch

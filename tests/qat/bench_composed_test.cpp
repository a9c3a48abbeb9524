// What crumb-bench qat times Crumb's operators against computes the same: values and gradients.
#include <doctest/doctest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "bench/torch/composed.h"
#include "libtorch/fake_quantize.h"
#include "qat/weights/a2q.h"

namespace {

using crumb::QuantSpec;

std::vector<at::Tensor> leaves(const std::vector<at::Tensor>& inputs, at::ScalarType type) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& input : inputs) copies.push_back(input.detach().to(type).clone().requires_grad_());
  return copies;
}

/// The greatest difference over the greatest magnitude.
double difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().to(at::kDouble), y = b.detach().to(at::kDouble);
  return ((x - y).abs().max() / y.abs().max().clamp_min(1e-30)).item<double>();
}

struct Case {
  at::Tensor x;
  const char* spec;
  std::vector<std::int64_t> view;  ///< the scale's shape beside x
};

std::vector<Case> random_cases() {
  return {{torch::randn({37, 211}), "int4:channel", {-1, 1}},
          {torch::randn({16, 5, 3, 3}), "int8:channel", {-1, 1, 1, 1}},
          {torch::relu(torch::randn({3, 8, 17, 70})), "uint4:tensor", {1, 1, 1, 1}}};
}

TEST_CASE("bench qat: the composed LSQ quantizer has the values and gradients of the fused one") {
  torch::manual_seed(21);
  std::vector<Case> cases = random_cases();
  cases.push_back({torch::randn({2, 9, 65}), "int4:tensor:range=full", {1, 1, 1}});
  for (const Case& c : cases) {
    CAPTURE(c.spec);
    const QuantSpec spec = QuantSpec::parse(c.spec);
    const double lo = spec.number->least_code(spec.range), hi = spec.number->greatest_code(spec.range);
    const at::Tensor scale = crumb::find_scales(c.x, spec).scale * 0.5, grad = torch::randn_like(c.x);
    const auto fused = leaves({c.x, scale}, at::kFloat), composed = leaves({c.x, scale}, at::kFloat);
    const at::Tensor y = crumb::fake_quantize(fused[0], fused[1], std::nullopt, spec);
    const at::Tensor z = crumb::bench::composed_fake_quantize(composed[0], composed[1].view(c.view), lo, hi);
    CHECK(at::equal(y, z));
    y.backward(grad);
    z.backward(grad);
    CHECK(difference(fused[0].grad(), composed[0].grad()) < 1e-6);  // LibTorch multiplies by s and by 1 / s
    CHECK(difference(fused[1].grad(), composed[1].grad()) < 1e-3);
  }
}

TEST_CASE("bench qat: LibTorch's own operator has the same values and gradients but next to ties") {
  torch::manual_seed(23);
  for (const Case& c : random_cases()) {
    CAPTURE(c.spec);
    const QuantSpec spec = QuantSpec::parse(c.spec);
    const int lo = spec.number->least_code(spec.range), hi = spec.number->greatest_code(spec.range);
    const at::Tensor scale = crumb::find_scales(c.x, spec).scale * 0.5;
    // x / s and x * (1 / s) differ by up to three roundings of 2^-24, so codes do only so near to a tie, and gradients
    // to x only so near to the ends of the grid.
    const at::Tensor u = c.x / scale.view(c.view);
    const at::Tensor near = ((u - u.floor() - 0.5).abs() <= u.abs() * std::ldexp(1.0, -22));
    const at::Tensor x = at::where(near, at::zeros_like(c.x), c.x), grad = torch::randn_like(x);
    const auto fused = leaves({x, scale}, at::kFloat), own = leaves({x, scale.flatten()}, at::kFloat);
    const at::Tensor y = crumb::fake_quantize(fused[0], fused[1], std::nullopt, spec);
    const at::Tensor z =
        crumb::bench::learnable_fake_quantize(own[0], own[1], at::zeros({scale.numel()}), lo, hi);
    CHECK(at::equal(y, z));
    y.backward(grad);
    z.backward(grad);
    CHECK(at::equal(fused[0].grad() != 0, own[0].grad() != 0));
    CHECK(difference(fused[1].grad().flatten(), own[1].grad()) < 1e-3);
  }
}

TEST_CASE("bench qat: the composed A2Q+ has the values and gradients of the fused one") {
  torch::manual_seed(22);
  for (const int accumulator : {10, 24}) {  // the budget decides; the norms decide
    CAPTURE(accumulator);
    const crumb::qat::A2qSettings settings{
        .weight_bits = 4, .accumulator_bits = accumulator, .input = {0, 15}};
    const at::Tensor w = torch::randn({24, 130}), grad = torch::randn({24, 130});
    const std::vector<at::Tensor> inputs{
        w, at::log2(w.abs().sum(1)),
        // Of 7.25 steps: at 7 the largest weight would stand at the edge of its code.
        at::log2(std::get<0>(w.abs().max(1)) / 7.25)};
    const auto fused = leaves(inputs, at::kFloat), composed = leaves(inputs, at::kDouble);
    const at::Tensor y = crumb::qat::a2q_values(fused[0], fused[1], fused[2], {}, settings).values;
    const at::Tensor z = crumb::bench::composed_a2q_plus(composed[0], composed[1], composed[2],
                                                         settings.weight_bits, settings.budget());
    CHECK(difference(y, z) < 1e-5);
    y.backward(grad);
    z.backward(grad.to(at::kDouble));
    for (std::size_t i = 0; i < 3; ++i) {
      CAPTURE(i);
      if (composed[i].grad().abs().max().item<double>() == 0) {
        CHECK(fused[i].grad().abs().max().item<double>() == 0);
      } else {
        CHECK(difference(fused[i].grad(), composed[i].grad()) < 1e-4);
      }
    }
  }
}

}  // namespace

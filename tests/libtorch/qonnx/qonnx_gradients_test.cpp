// Gradients of QONNX's quantizers: those of fake_quantize where both can say the same, and the straight-through
// rule elsewhere; and what threads and strides may not change.
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include "libtorch/execute/operator.h"
#include "libtorch/fake_quantize.h"
#include "tests/support/torch_doctest.h"

using crumb::graph::Attribute;
using crumb::graph::Node;
using crumb::libtorch::Call;
using crumb::libtorch::find_operator;
using crumb::libtorch::typed;
using crumb::libtorch::TypedTensor;
using torch::autograd::grad;

namespace {

torch::Tensor run(const char* op, const std::vector<torch::Tensor>& inputs,
                  std::map<std::string, Attribute> attributes = {}, std::int64_t version = 1) {
  Node node{.name = "node", .op = op, .domain = std::string(crumb::graph::kQonnxDomain), .version = version};
  node.attributes = std::move(attributes);
  std::vector<TypedTensor> values;
  for (const torch::Tensor& input : inputs) values.push_back(typed(input));
  return find_operator(op, crumb::graph::kQonnxDomain)(Call(node, values)).at(0).tensor;
}

torch::Tensor number(double value) { return torch::tensor(value, torch::kFloat); }
torch::Tensor leaf(const torch::Tensor& values) { return values.detach().clone().requires_grad_(); }
bool close(const torch::Tensor& a, const torch::Tensor& b) {
  return a.sizes() == b.sizes() && torch::allclose(a, b, 1e-5, 1e-5);
}
Attribute flag(int value) { return std::int64_t{value}; }

}  // namespace

TEST_CASE("QONNX gradients: Quant has those of fake_quantize") {
  torch::manual_seed(1);
  const torch::Tensor x = leaf(torch::randn({6, 8}) * 3), weight = torch::randn({6, 8});
  for (const bool per_channel : {false, true}) {
    const torch::Tensor scale = leaf(per_channel ? torch::rand({6, 1}) + 0.2 : number(0.37));
    const torch::Tensor ours =
        run("Quant", {x, scale, number(0), number(4)}, {{"signed", flag(1)}, {"narrow", flag(0)}});
    const torch::Tensor theirs = crumb::fake_quantize(
        x, scale.flatten(), {}, per_channel ? "int4:channel:range=full" : "int4:tensor:range=full");
    CHECK(torch::equal(ours, theirs));
    const auto mine = grad({(ours * weight).sum()}, {x, scale});
    const auto known = grad({(theirs * weight).sum()}, {x, scale});
    CHECK(close(mine[0], known[0]));
    CHECK(close(mine[1], known[1]));
  }
}

TEST_CASE("QONNX gradients: a zero point has its own where values are clamped") {
  const torch::Tensor x = leaf(torch::tensor({-100.0F, 0.3F, 1.2F, 100.0F}));
  const torch::Tensor scale = leaf(number(0.5)), zero = leaf(number(2));
  const torch::Tensor y =
      run("Quant", {x, scale, zero, number(3)}, {{"signed", flag(0)}, {"narrow", flag(0)}});
  CHECK(torch::equal(y.detach(), torch::tensor({-1.0F, 0.5F, 1.0F, 2.5F})));
  const auto found = grad({y.sum()}, {x, scale, zero});
  CHECK(torch::equal(found[0], torch::tensor({0.0F, 1.0F, 1.0F, 0.0F})));
  CHECK(found[1].item<float>() == doctest::Approx(-2 + (1 - 0.6) + (2 - 2.4) + 5));
  CHECK(found[2].item<float>() == doctest::Approx(-0.5 - 0.5));
}

TEST_CASE("QONNX gradients: the other quantizers") {
  const torch::Tensor x = leaf(torch::tensor({-3.0F, -0.4F, 0.0F, 0.9F, 2.0F}));
  const torch::Tensor scale = leaf(number(1.5));
  auto found = grad({run("BipolarQuant", {x, scale}).sum()}, {x, scale});
  CHECK(torch::equal(found[0], torch::tensor({0.0F, 1.0F, 1.0F, 1.0F, 0.0F})));
  CHECK(found[1].item<float>() == doctest::Approx(-1 + (-1 + 0.4 / 1.5) + 1 + (1 - 0.6) + 1));

  const torch::Tensor wide = leaf(torch::tensor({-500.0F, -3.3F, 0.01F, 17.0F, 449.0F}));
  const std::vector<torch::Tensor> e4m3 = {wide, number(1), number(4), number(3), number(7), number(448)};
  found = grad({run("FloatQuant", e4m3).sum()}, {wide});
  CHECK(torch::equal(found[0], torch::tensor({0.0F, 1.0F, 1.0F, 1.0F, 0.0F})));

  found = grad({run("Trunc", {wide, number(0.5), number(0), number(8), number(6)}).sum()}, {wide});
  CHECK(torch::equal(found[0], torch::full({5}, 0.25F)));
  found = grad({run("Trunc", {wide, number(0.5), number(0), number(8), number(2), number(4)}, {}, 2).sum()},
               {wide});
  CHECK(torch::equal(found[0], torch::tensor({0.0F, 1.0F, 1.0F, 0.0F, 0.0F})));
}

TEST_CASE("QONNX gradients: steps at equal distances have the slope of their line") {
  const torch::Tensor x = leaf(torch::tensor({{-9.0F, 0.0F}, {0.3F, 1.7F}, {2.2F, 9.0F}}));
  const torch::Tensor thresholds = torch::tensor({{-0.5F, 0.0F, 0.5F}, {0.0F, 2.0F, 4.0F}});
  const torch::Tensor y = run("MultiThreshold", {x, thresholds}, {{"out_scale", 3.0F}, {"out_bias", -1.0F}});
  const auto found = grad({y.sum()}, {x});
  CHECK(torch::equal(found[0], torch::tensor({{0.0F, 1.5F}, {6.0F, 1.5F}, {0.0F, 0.0F}})));
}

TEST_CASE("QONNX quantizers: threads, strides and layouts change no bit") {
  torch::manual_seed(2);
  const torch::Tensor x = torch::randn({64, 33, 70});
  const torch::Tensor scale = torch::rand({33, 1}) + 0.1;
  const auto quantize = [&](const torch::Tensor& values) {
    return run("Quant", {values, scale, number(1), number(5)}, {{"rounding_mode", std::string("HALF_UP")}});
  };
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const torch::Tensor alone = quantize(x);
  at::set_num_threads(4);
  CHECK(torch::equal(quantize(x), alone));
  CHECK(torch::equal(quantize(x.transpose(0, 2).contiguous().transpose(0, 2)), alone));
  at::set_num_threads(before);
  const torch::Tensor expanded = torch::randn({1, 33, 1}).expand({4, 33, 9});
  CHECK(torch::equal(quantize(expanded), quantize(expanded.contiguous())));
  CHECK(torch::equal(quantize(leaf(expanded)).detach(), quantize(expanded)));
  CHECK(quantize(torch::zeros({0, 33, 2})).sizes() == at::IntArrayRef({0, 33, 2}));
}

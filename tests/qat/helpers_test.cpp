// What helps a training script: losses against a teacher, averages of weights, batch norms estimated anew, quantizers that
// come in one after another.
#include <doctest/doctest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "base/error.h"
#include "libtorch/capture/capture.h"
#include "qat/distillation.h"
#include "qat/network.h"
#include "qat/optimize/weight_average.h"
#include "tests/qat/networks.h"

namespace {

using crumb::qat::distillation_loss;
using crumb::qat::hidden_state_loss;
using crumb::qat::WeightAverage;
using crumb::testing::recipe_of;

TEST_CASE(
    "qat distillation: the loss of logits is LibTorch's divergence, zero for equals, without a gradient to "
    "the teacher") {
  torch::manual_seed(2);
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{1, 2}, {7, 10}, {2, 3, 5}}) {
    const at::Tensor student = torch::randn(shape, at::requires_grad()),
                     teacher = torch::randn(shape, at::requires_grad());
    for (const double temperature : {0.5, 1.0, 4.0}) {
      const std::int64_t last = student.dim() - 1;
      const at::Tensor each = torch::nn::functional::kl_div(
          (student / temperature).log_softmax(last), (teacher / temperature).log_softmax(last),
          torch::nn::functional::KLDivFuncOptions().reduction(torch::kSum).log_target(true));
      const double rows = static_cast<double>(student.numel() / shape.back());
      const at::Tensor loss = distillation_loss(student, teacher, temperature);
      CHECK(loss.item<double>() ==
            doctest::Approx(each.item<double>() / rows * temperature * temperature).epsilon(1e-4));
      loss.backward();
      CHECK(student.grad().abs().max().item<double>() > 0);
      CHECK_FALSE(teacher.grad().defined());
      CHECK(distillation_loss(student, student, temperature).item<double>() ==
            doctest::Approx(0).epsilon(1e-6));
    }
  }
  CHECK_THROWS_AS(distillation_loss(torch::zeros({2, 3}), torch::zeros({2, 4})), crumb::Error);
  CHECK_THROWS_AS(distillation_loss(torch::zeros({2, 3}), torch::zeros({2, 3}), 0), crumb::Error);
}

TEST_CASE("qat distillation: hidden states count by their relative error") {
  const at::Tensor a = torch::randn({4, 5}), b = torch::randn({2, 3, 6}) * 100;
  CHECK(hidden_state_loss({a, b}, {a, b}).item<double>() == 0);
  CHECK(hidden_state_loss({a * 1.1, b * 1.1}, {a, b}).item<double>() == doctest::Approx(0.01).epsilon(1e-3));
  CHECK_THROWS_AS(hidden_state_loss({a}, {a, b}), crumb::Error);
  CHECK_THROWS_AS(hidden_state_loss({}, {}), crumb::Error);
  CHECK_THROWS_AS(hidden_state_loss({a}, {b}), crumb::Error);
}

TEST_CASE(
    "qat average: it is the recurrence, stands in while it is used, and leaves the parameters as they were") {
  torch::manual_seed(3);
  torch::nn::Linear layer(3, 2);
  WeightAverage average(*layer, 0.5);
  double weight_average = layer->weight[0][0].item<double>();
  for (int n = 1; n <= 6; ++n) {
    const torch::NoGradGuard no_gradients;
    layer->weight.add_(1);
    average.update();
    const double keeps = std::min(0.5, (1.0 + n) / (10.0 + n));
    weight_average = weight_average * keeps + layer->weight[0][0].item<double>() * (1 - keeps);
    CHECK(average.averages()[0][0][0].item<double>() == doctest::Approx(weight_average).epsilon(1e-5));
  }
  const at::Tensor before = layer->weight.detach().clone();
  {
    const auto used = average.use();
    CHECK(layer->weight[0][0].item<double>() == doctest::Approx(weight_average).epsilon(1e-5));
  }
  CHECK(at::equal(layer->weight, before));
  CHECK_THROWS_AS(WeightAverage(*layer, 1), crumb::Error);
}

struct Normed : torch::nn::Module {
  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
  torch::nn::BatchNorm1d norm1{nullptr}, norm2{nullptr};
  Normed() {
    fc1 = register_module("fc1", torch::nn::Linear(4, 6));
    norm1 = register_module("norm1", torch::nn::BatchNorm1d(6));
    fc2 = register_module("fc2", torch::nn::Linear(6, 3));
    norm2 = register_module("norm2", torch::nn::BatchNorm1d(3));
  }
  at::Tensor forward(const at::Tensor& x) { return norm2(fc2(torch::relu(norm1(fc1(x))))); }
};

TEST_CASE("qat batch norms: estimated anew, what they give has mean 0 and variance 1, whatever the batches") {
  torch::manual_seed(4);
  auto module = std::make_shared<Normed>();
  module->eval();
  const at::Tensor x = torch::randn({60, 4}) * 3 + 1;
  for (const char* text : {"weights: int3:channel\nactivations: uint4:tensor\nbatch_norm: keep\n",
                           "weights: int2:channel\nbatch_norm: keep\n"}) {
    CAPTURE(text);
    crumb::qat::Network network(crumb::libtorch::capture(*module, {x}), recipe_of(text));
    network.calibrate({{x}});
    network.eval();
    network.reestimate_batch_norm({{x.slice(0, 0, 10)}, {x.slice(0, 10, 60)}});
    const torch::NoGradGuard no_gradients;
    const at::Tensor y = network.forward(x);
    CHECK(y.mean(0).abs().max().item<double>() < 1e-4);
    CHECK((y.var(0, false) - 1).abs().max().item<double>() < 1e-3);
    CHECK_THROWS_AS(network.reestimate_batch_norm({}), crumb::Error);
  }
}

TEST_CASE(
    "qat schedule: quantizers that do not work pass values on, and those of weights and activations come "
    "apart") {
  torch::manual_seed(5);
  auto module = std::make_shared<Normed>();
  module->eval();
  const at::Tensor x = torch::randn({20, 4});
  crumb::qat::Network network(crumb::libtorch::capture(*module, {x}),
                              recipe_of("weights: int2:channel\nactivations: uint2:tensor\nbiases: int32\n"));
  network.calibrate({{x}});
  network.eval();
  const torch::NoGradGuard no_gradients;
  const crumb::qat::QuantizerSchedule schedule{.weights_from = 10, .activations_from = 20};
  const auto at_step = [&](std::int64_t step) {
    network.set_active(schedule.at(step));
    return network.forward(x);
  };
  const at::Tensor floats = network.forward_float({x}).at(0);
  CHECK(at::equal(at_step(9), floats));
  const at::Tensor weights = at_step(10), all = at_step(20);
  CHECK_FALSE(at::allclose(weights, floats));
  CHECK_FALSE(at::allclose(all, weights));
  network.set_active({.weights = false});
  CHECK_FALSE(at::allclose(network.forward(x), floats));
  network.set_active({});
  CHECK(at::equal(network.forward(x), all));
}

}  // namespace

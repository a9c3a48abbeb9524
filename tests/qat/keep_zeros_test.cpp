// Weights that are zero when training begins stay zero (prune: 0), whatever the format, the optimizer and the
// zeros.
#include <doctest/doctest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <map>
#include <memory>
#include <random>

#include "qat/network.h"
#include "tests/qat/frozen_value.h"
#include "tests/qat/networks.h"

namespace {

using crumb::graph::Graph;
using crumb::qat::Network;
using crumb::testing::captured;
using crumb::testing::frozen_value;
using crumb::testing::recipe_of;
using crumb::testing::small_mlp;
using crumb::testing::small_points;

using Groups = std::vector<torch::optim::OptimizerParamGroup>;
using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

/// Each with momentum or moments, and with decay that a zero would not survive if it had ever moved.
const std::map<std::string, MakeOptimizer> kOptimizers = {
    {"sgd",
     [](auto p) {
       return std::make_unique<torch::optim::SGD>(
           p, torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01));
     }},
    {"nesterov",
     [](auto p) {
       return std::make_unique<torch::optim::SGD>(
           p, torch::optim::SGDOptions(0.05).momentum(0.9).nesterov(true));
     }},
    {"adam",
     [](auto p) {
       return std::make_unique<torch::optim::Adam>(p, torch::optim::AdamOptions(0.01).weight_decay(0.01));
     }},
    {"amsgrad",
     [](auto p) {
       return std::make_unique<torch::optim::Adam>(p, torch::optim::AdamOptions(0.01).amsgrad(true));
     }},
    {"adamw",
     [](auto p) {
       return std::make_unique<torch::optim::AdamW>(p, torch::optim::AdamWOptions(0.01).weight_decay(0.1));
     }},
    {"rmsprop",
     [](auto p) {
       return std::make_unique<torch::optim::RMSprop>(
           p, torch::optim::RMSpropOptions(0.01).momentum(0.9).centered(true));
     }},
    {"adagrad",
     [](auto p) {
       return std::make_unique<torch::optim::Adagrad>(p,
                                                      torch::optim::AdagradOptions(0.05).weight_decay(0.01));
     }},
};

const std::string kFormats[] = {
    "weights: keep\nactivations: uint4:tensor\n",
    "weights: int4:channel\nactivations: uint4:tensor\n",
    "weights: uint4:channel:zero=int\nactivations: uint8:tensor\n",
    "weights: int3:group=2\nactivations: uint8:tensor\n",
    "weights: e2m1:channel\nactivations: e3m2:tensor\n",
    "weights: ternary:channel\nactivations: uint8:tensor\nscales: mean\n",
    "weights: int6:channel\nactivations: uint6:tensor\nscales: weight_norm\n",
    "weights: int4:channel\nactivations: uint4:tensor\naccumulator: 9:a2q_plus\n",
};

/// Sets a drawn share of each weight to zero; returns where.
std::map<std::string, at::Tensor> prune_at_random(torch::nn::Module& net) {
  const torch::NoGradGuard no_gradients;
  std::map<std::string, at::Tensor> zeros;
  for (auto& parameter : net.named_parameters()) {
    if (parameter.value().dim() < 2) continue;
    const at::Tensor mask = torch::rand(parameter.value().sizes()).lt(torch::rand({}).item<double>());
    parameter.value().masked_fill_(mask, 0);
    zeros[parameter.key()] = mask;
  }
  return zeros;
}

void train(Network& network, torch::optim::Optimizer& optimizer, const at::Tensor& x, const at::Tensor& y) {
  network.train();
  constexpr int kSteps = 8;
  for (int step = 0; step < kSteps; ++step) {
    network.advance(static_cast<double>(step) / kSteps);
    const at::Tensor loss = torch::nn::functional::cross_entropy(network.forward(x), y) + network.penalty();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  network.eval();
}

std::int64_t others_at(const at::Tensor& values, const at::Tensor& mask) {
  return values.masked_select(mask).ne(0).sum().item<std::int64_t>();
}

}  // namespace

TEST_CASE("keep zeros: drawn zeros stay, in parameters and as codes, with every optimizer and format") {
  int seed = 0, learned = 0;
  for (const auto& [optimizer_name, make] : kOptimizers) {
    for (std::size_t i = 0; i < 3; ++i) {  // each format with several optimizers
      const std::string& format =
          kFormats[(static_cast<std::size_t>(seed) * 3 + i * 5) % std::size(kFormats)];
      CAPTURE(optimizer_name);
      CAPTURE(format);
      torch::manual_seed(++seed);
      const auto [x, y] = small_points();
      const auto net = small_mlp();
      const auto zeros = prune_at_random(*net);
      Network network(captured(*net, x), recipe_of(format + "prune: 0\n"));
      network.calibrate({{x}});
      std::map<std::string, at::Tensor> before;
      for (const auto& [name, mask] : zeros) before[name] = network.named_parameters()[name].detach().clone();
      const auto optimizer = make(network.parameters());
      train(network, *optimizer, x, y);
      const Graph frozen = network.freeze();
      for (const auto& [name, mask] : zeros) {
        CAPTURE(name);
        const at::Tensor now = network.named_parameters()[name].detach();
        CHECK(others_at(now, mask) == 0);
        CHECK(others_at(frozen_value(frozen, name), mask) == 0);
        learned += at::equal(now, before[name]) ? 0 : 1;
      }
    }
  }
  CHECK(learned > 50);  // of 63 weights; behind a layer that is zero nothing learns
}

TEST_CASE("keep zeros: without the goal they come back") {
  torch::manual_seed(1);
  const auto [x, y] = small_points();
  const auto net = small_mlp();
  const auto zeros = prune_at_random(*net);
  Network network(captured(*net, x), recipe_of(kFormats[1]));
  network.calibrate({{x}});
  const auto optimizer = kOptimizers.at("adamw")(network.parameters());
  train(network, *optimizer, x, y);
  CHECK(others_at(network.named_parameters()["fc1.weight"].detach(), zeros.at("fc1.weight")) > 0);
}

TEST_CASE("keep zeros: weights into which a batch norm is folded keep theirs") {
  torch::manual_seed(2);
  torch::nn::Sequential net(torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 6, 3).bias(false)),
                            torch::nn::BatchNorm2d(6), torch::nn::Functional(torch::relu),
                            torch::nn::Functional([](const at::Tensor& a) { return a.flatten(1); }),
                            torch::nn::Linear(54, 3));  // fmt: skip
  const at::Tensor x = torch::randn({32, 2, 5, 5}), y = torch::randint(3, {32});
  net->forward(x);  // statistics
  net->eval();
  const auto zeros = prune_at_random(*net);
  const Graph graph = captured(*net.ptr(), x);
  Network network(graph, recipe_of(kFormats[1] + "prune: 0\n"));
  network.calibrate({{x}});
  const auto optimizer = kOptimizers.at("sgd")(network.parameters());
  train(network, *optimizer, x, y);
  const Graph frozen = network.freeze();
  REQUIRE(network.pruned().size() == 2);
  std::int64_t zero_codes = 0, expected = 0;
  for (const auto& [name, mask] : zeros) {
    CHECK(others_at(network.named_parameters()[name].detach(), mask) == 0);
    expected += mask.sum().item<std::int64_t>();
  }
  for (const auto& layer : network.pruned()) {
    CHECK(frozen_value(frozen, layer.name).eq(0).sum().item<std::int64_t>() >= layer.pruned);
    zero_codes += layer.pruned;
  }
  CHECK(zero_codes == expected);
}

TEST_CASE(
    "keep zeros: a format without zero is refused where there are zeros, and taken where there are none") {
  torch::manual_seed(3);
  const auto [x, y] = small_points();
  const auto net = small_mlp();
  CHECK_NOTHROW(Network(captured(*net, x), recipe_of("weights: int2h:channel\nprune: 0\n")));
  (void)prune_at_random(*net);
  CHECK_THROWS_WITH(Network(captured(*net, x), recipe_of("weights: int2h:channel\nprune: 0\n")),
                    doctest::Contains("has zeros that are to stay"));
}

TEST_CASE("keep zeros: zeros count in a share of pruning, and stay from the first step on") {
  torch::manual_seed(4);
  const auto [x, y] = small_points();
  const auto net = small_mlp();
  const auto zeros = prune_at_random(*net);
  Network network(captured(*net, x), recipe_of(kFormats[1] + "prune: 0.9:steps=4\n"));
  network.calibrate({{x}});
  const auto optimizer = kOptimizers.at("adamw")(network.parameters());
  train(network, *optimizer, x, y);
  std::int64_t gone = 0;
  for (const auto& layer : network.pruned()) gone += layer.pruned;
  std::int64_t drawn = 0;
  for (const auto& [name, mask] : zeros) drawn += mask.sum().item<std::int64_t>();
  CHECK(gone == std::max<std::int64_t>(810, drawn));  // of 900
  const Graph frozen = network.freeze();
  for (const auto& [name, mask] : zeros) CHECK(others_at(frozen_value(frozen, name), mask) == 0);
}

// Recipes drawn from what weights, activations, biases, scales and accumulators may be: each trains and is frozen to what
// it computes, or is refused by name. An error of LibTorch's is none of ours.
#include <doctest/doctest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <random>
#include <set>

#include "libtorch/capture/capture.h"
#include "libtorch/execute/graph_module.h"
#include "qat/network.h"
#include "tests/support/enclosure.h"
#include "tests/support/testing.h"

namespace {

using crumb::qat::Network;

struct Net : torch::nn::Module {
  torch::nn::Conv1d conv{nullptr};
  torch::nn::Linear first{nullptr}, second{nullptr}, last{nullptr};
  Net() {
    conv = register_module("conv", torch::nn::Conv1d(torch::nn::Conv1dOptions(1, 4, 4)));
    first = register_module("first", torch::nn::Linear(20, 12));
    second = register_module("second", torch::nn::Linear(12, 8));
    last = register_module("last", torch::nn::Linear(8, 3));
  }
  at::Tensor forward(const at::Tensor& x) {
    return last(torch::relu(second(torch::relu(first(torch::relu(conv(x)).flatten(1))))));
  }
};

template <class Engine>
std::string drawn_recipe(Engine& engine) {
  const auto pick = [&](std::initializer_list<const char*> options) {
    return std::string(
        options.begin()[std::uniform_int_distribution<std::size_t>(0, options.size() - 1)(engine)]);
  };
  return "weights: " + pick({"int2h", "int3", "int4", "int8", "ternary", "binary", "e2m1"}) +
         pick({":tensor", ":tensor", ":channel", ":channel", ":group=4"}) +
         pick({"", "", ":scale=e8m0", ":search=mse"}) + "\nactivations: " +
         pick({"uint4:tensor", "uint8:tensor:zero=int", "int8:tensor:scale=e8m0", "uint8:token"}) +
         "\nbiases: " + pick({"keep", "keep", "int16", "int32"}) +
         pick({"", "", "\nscales: statistics", "\nscales: weight_norm", "\nscales: mean"}) +
         pick({"", "", "\naccumulator: 10:a2q", "\naccumulator: 12:a2q_plus"}) + "\n";
}

TEST_CASE("qat recipes: each trains and is frozen to what it computes, or is refused by name") {
  const int rounds = crumb::testing::slow() ? 2000 : 60;
  std::mt19937 engine(1);
  std::set<std::string> trained;
  int undecided = 0;
  const at::Tensor x = torch::randn({16, 1, 8}, at::detail::createCPUGenerator(3));
  for (int round = 0; round < rounds; ++round) {
    const std::string recipe = "version: 1\n" + drawn_recipe(engine);
    CAPTURE(recipe);
    torch::manual_seed(static_cast<std::uint64_t>(round));
    auto net = std::make_shared<Net>();
    try {
      Network network(crumb::libtorch::capture(*net, {x}), crumb::parse_recipe(recipe, "test"));
      network.calibrate({{x}});
      torch::optim::SGD optimizer(network.parameters(), 1e-2);
      network.train();
      (network.forward(x).square().mean() + network.penalty()).backward();
      optimizer.step();
      network.eval();
      const torch::NoGradGuard no_gradients;
      const at::Tensor expected = network.forward(x);
      const crumb::graph::Graph frozen = network.freeze();
      const std::string wrong = crumb::testing::not_computed_by(frozen, {x}, {expected});
      if (!wrong.empty() && !crumb::testing::too_near(crumb::testing::enclose(frozen, {x})).empty()) {
        ++undecided;  // a token's greatest sum of few terms may be a divisor that puts others half way between codes
        continue;
      }
      CHECK(wrong == "");
      trained.insert(recipe);
    } catch (const crumb::Error&) {  // refused
    } catch (const c10::Error& error) {
      FAIL_CHECK(error.what_without_backtrace());
    }
  }
  CHECK(trained.size() > static_cast<std::size_t>(rounds) / 4);
  CHECK(undecided <= rounds / 200);
}

}  // namespace

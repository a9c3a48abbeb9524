// Networks and hooked modules that are pruned while they train: what is behind a mask is zero in what is frozen, what
// computes is what is frozen, bounds hold, masks are saved.
#include <doctest/doctest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/serialize.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "analysis/accumulator/check.h"
#include "analysis/cost/cost.h"
#include "graph/facts/bind_shapes.h"
#include "graph/qonnx/quantized_constants.h"
#include "libtorch/capture/capture.h"
#include "libtorch/execute/graph_module.h"
#include "qat/attach.h"
#include "qat/network.h"
#include "qat/quant_activation.h"
#include "tasks/networks.h"
#include "tests/qat/frozen_value.h"
#include "tests/qat/networks.h"
#include "tests/support/enclosure.h"

namespace {

using crumb::Recipe;
using crumb::graph::Graph;
using crumb::qat::Network;
using crumb::qat::PrunedLayer;
using crumb::testing::captured;
using crumb::testing::frozen_value;
using crumb::testing::outputs_of;
using crumb::testing::recipe_of;
using crumb::testing::small_mlp;
using crumb::testing::small_points;

constexpr std::int64_t kWeights[] = {8 * 30, 30 * 20, 20 * 3};

/// Steps [from, to) of `all`.
void train_pruned(Network& network, torch::optim::Optimizer& optimizer, int from, int to, int all) {
  torch::manual_seed(77);
  const auto [x, y] = small_points();
  network.train();
  for (int step = from; step < to; ++step) {
    network.prune(static_cast<double>(step) / all);
    const at::Tensor loss = torch::nn::functional::cross_entropy(network.forward(x), y) + network.penalty();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
}

void train_pruned(Network& network, int steps) {
  torch::optim::AdamW optimizer(network.parameter_groups({.learning_rate = 5e-3, .weight_decay = 1e-3}));
  train_pruned(network, optimizer, 0, steps, steps);
}

/// The weight as the frozen graph has it.
std::int64_t zeros(const Graph& graph, const std::string& name) {
  return frozen_value(graph, name).eq(0).sum().item<std::int64_t>();
}

const std::string kPruningRecipes[] = {
    "weights: keep\n",
    "weights: keep\nactivations: uint4:tensor\n",
    "weights: int4:channel\nactivations: uint4:tensor\n",
    "weights: int2:channel:search=mse\nactivations: uint4:tensor\nbiases: int32\n",
    "weights: int8:channel:search=mse\nactivations: int8:tensor\nscales: statistics\n",
    "weights: uint4:channel:zero=int\nactivations: uint8:tensor\n",
    "weights: e2m1:channel\nactivations: e3m2:tensor\n",
    "weights: nf4:channel\nactivations: uint8:tensor\n",
    "weights: ternary:tensor\nactivations: uint8:tensor\nscales: mean\n",
    "weights: ternary:channel\nactivations: uint8:tensor\nscales: mean\n",
    "weights: int6:channel\nactivations: uint6:tensor\nscales: weight_norm\n",
    "weights: int4:channel\nactivations: uint4:tensor\naccumulator: 9:a2q_plus\n",
    "weights: int4:channel\nactivations: uint4:tensor\naccumulator: \"10:a2q:tile=7\"\nbiases: int16\n",
};

TEST_CASE("pruning: what is behind a mask is zero, and what computes is what is frozen") {
  for (const std::string& text : kPruningRecipes) {
    for (const std::string goal : {"0.8:global", "0.5:layer:steps=3:rewind"}) {
      CAPTURE(text);
      CAPTURE(goal);
      torch::manual_seed(3);
      const auto [x, y] = small_points();
      const auto net = small_mlp();
      Network network(captured(*net, x), recipe_of(text + "prune: \"" + goal + "\"\n"));
      CHECK_THROWS_WITH_AS(network.prune(0), doctest::Contains("calibrate"), crumb::Error);
      network.calibrate({{x}});
      train_pruned(network, 30);
      std::int64_t gone = 0;
      const auto layers = network.pruned();
      REQUIRE(layers.size() == 3);
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK(layers[i].weights == kWeights[i]);
        if (goal.starts_with("0.5")) CHECK(layers[i].pruned == kWeights[i] / 2);
        gone += layers[i].pruned;
      }
      if (goal.starts_with("0.8")) CHECK(gone == 720);  // of 900
      network.eval();
      const torch::NoGradGuard no_gradients;
      const at::Tensor expected = network.forward(x);
      const Graph frozen = network.freeze();
      for (const PrunedLayer& layer : layers) {
        CHECK(zeros(frozen, layer.name) >= layer.pruned);
        if (!text.starts_with("weights: keep")) CHECK(frozen.quantized.contains(layer.name));
      }
      const at::Tensor found = outputs_of(frozen, x);
      CHECK(crumb::testing::not_computed_by(frozen, {x}, {expected}) == "");
      CHECK(crumb::testing::not_computed_by(frozen, {x}, {found}) == "");
      const auto report = crumb::analysis::check_accumulators(frozen);
      CHECK(report.failures.empty());
      if (text.find("accumulator") != std::string::npos) {
        CHECK(std::ranges::count_if(report.layers, [](const auto& row) { return row.constrained; }) == 1);
      }
      // The float network is pruned as well.
      if (text == kPruningRecipes[0]) {
        CHECK(crumb::testing::not_computed_by(frozen, {x}, {network.forward_float({x})[0]}) == "");
      }
    }
  }
}

TEST_CASE("pruning: weights behind a mask get no gradient, and masks only grow") {
  torch::manual_seed(4);
  const auto [x, y] = small_points();
  for (const char* text : {"weights: int4:channel\nactivations: uint4:tensor\n",
                           "weights: int4:channel\nactivations: uint4:tensor\naccumulator: 9:a2q_plus\n",
                           "weights: int4:channel\nactivations: uint4:tensor\nscales: weight_norm\n"}) {
    const auto net = small_mlp();
    Network network(captured(*net, x), recipe_of(std::string(text) + "prune: 0.9\n"));
    network.calibrate({{x}});
    torch::optim::AdamW optimizer(network.parameter_groups({.learning_rate = 1e-2}));
    std::int64_t before = 0;
    for (int step = 0; step < 30; ++step) {
      train_pruned(network, optimizer, step, step + 1, 30);
      std::int64_t gone = 0;
      for (const PrunedLayer& layer : network.pruned()) gone += layer.pruned;
      CHECK(gone >= before);
      CHECK(gone == static_cast<std::int64_t>(900 * 0.9 * std::min(10, step * 2 / 3 + 1) / 10 + 1e-6));
      before = gone;
    }
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(network.forward(x), y).backward();
    std::int64_t without = 0;
    for (const char* name : {"fc1.weight", "fc2.weight", "fc3.weight"})
      without += network.named_parameters()[name].grad().eq(0).sum().item<std::int64_t>();
    CHECK(without >= 810);
  }
}

TEST_CASE("pruning: rewinding puts what is left back to its first values at every step") {
  torch::manual_seed(5);
  const auto [x, y] = small_points();
  const auto net = small_mlp();
  Network network(
      captured(*net, x),
      recipe_of("weights: int4:channel\nactivations: uint4:tensor\nprune: \"0.6:steps=3:rewind\"\n"));
  network.calibrate({{x}});
  const auto value = [&](const std::string& name) {
    return network.named_parameters()[name].detach().clone();
  };
  const at::Tensor first = value("fc2.weight"), scale = value("quantizers.fc2_weight.scale");
  torch::optim::AdamW optimizer(network.parameter_groups({.learning_rate = 1e-2}));
  train_pruned(network, optimizer, 0, 9, 30);
  CHECK_FALSE(at::equal(value("fc2.weight"), first));
  CHECK_FALSE(at::equal(value("quantizers.fc2_weight.scale"), scale));
  network.prune(0.5);  // the third step is due
  CHECK(at::equal(value("fc2.weight"), first));
  CHECK(at::equal(value("quantizers.fc2_weight.scale"), scale));
  train_pruned(network, optimizer, 15, 17, 30);
  const at::Tensor trained = value("fc2.weight");
  network.prune(0.9);  // nothing is due any more
  CHECK(at::equal(value("fc2.weight"), trained));
}

TEST_CASE("pruning: masks and the schedule's place are saved") {
  for (const char* goal : {"0.7", "0.7:layer:rewind"}) {
    torch::manual_seed(6);
    const auto [x, y] = small_points();
    const Recipe recipe = recipe_of(
        "weights: int4:channel\nactivations: uint4:tensor\naccumulator: 9:a2q_plus\n"
        "prune: \"" +
        std::string(goal) + "\"\n");
    const auto net = small_mlp(), other = small_mlp();
    auto network = std::make_shared<Network>(captured(*net, x), recipe);
    network->calibrate({{x}});
    torch::optim::AdamW optimizer(network->parameter_groups({.learning_rate = 5e-3}));
    train_pruned(*network, optimizer, 0, 13, 30);
    std::stringstream file, steps;
    torch::save(network, file);
    torch::save(optimizer, steps);
    auto again = std::make_shared<Network>(captured(*other, x), recipe);
    torch::load(again, file);
    torch::optim::AdamW resumed(again->parameter_groups({.learning_rate = 5e-3}));
    torch::load(resumed, steps);
    CHECK(at::equal(again->forward(x), network->forward(x)));
    train_pruned(*network, optimizer, 13, 30, 30);
    train_pruned(*again, resumed, 13, 30, 30);
    CHECK(at::equal(again->forward(x), network->forward(x)));
    for (std::size_t i = 0; i < 3; ++i) CHECK(again->pruned()[i].pruned == network->pruned()[i].pruned);
  }
}

TEST_CASE("pruning: goals of rules, and weights without one") {
  torch::manual_seed(7);
  const auto [x, y] = small_points();
  const auto net = small_mlp();
  Network network(captured(*net, x), recipe_of(R"(weights: int4:channel
prune: 0.5
rules:
  - {match: {name: fc2}, prune: "0.9:layer"}
  - {match: {name: fc3}, prune: none}
)"));
  network.calibrate({{x}});
  network.prune(1);
  const auto layers = network.pruned();
  REQUIRE(layers.size() == 2);
  CHECK(layers[0].name == "fc1.weight");
  CHECK(layers[0].pruned == 120);
  CHECK(layers[1].pruned == 540);
  CHECK(crumb::qat::pruned_share(layers) == 660.0 / 840);
  Network plain(captured(*net, x), recipe_of("weights: int4:channel\n"));
  CHECK_FALSE(crumb::qat::pruned_share(plain.pruned()));
}

TEST_CASE("pruning: formats without a zero are refused by name") {
  torch::manual_seed(8);
  const auto [x, y] = small_points();
  const auto net = small_mlp();
  const Graph graph = captured(*net, x);
  const auto refused = [&](const std::string& weights, std::vector<std::string> words) {
    std::string message;
    try {
      Network network(graph, recipe_of("weights: " + weights + "\nprune: 0.5\n"));
    } catch (const crumb::Error& error) {
      message = error.what();
    }
    for (const std::string& word : words) CHECK_MESSAGE(message.find(word) != std::string::npos, message);
  };
  refused("int2h:channel", {"'fc1.weight'", "'fc2.weight'", "'fc3.weight'", "int2h", "no zero", "ternary"});
  refused("binary:channel", {"'fc2.weight'", "binary"});
  refused("palette4", {"'fc2.weight'", "palette4"});
  refused("uint4:channel:zero=float", {"'fc2.weight'", "zero=float"});
}

TEST_CASE("pruning: weights that are no finite numbers are an error that names them") {
  const auto [x, y] = small_points();
  const auto net = small_mlp();
  Network network(captured(*net, x), recipe_of("weights: keep\nprune: 0.5\n"));
  network.calibrate({{x}});
  {
    const torch::NoGradGuard no_gradients;
    network.named_parameters()["fc2.weight"][0][0] = NAN;
  }
  CHECK_THROWS_WITH_AS(network.prune(0), doctest::Contains("fc2.weight"), crumb::Error);
}

TEST_CASE("pruning: bit operations of the network of the paper") {
  // arXiv:2102.11289, eq. 8, for 16-64-32-32-5: 32 bits, then b bits behind an input of 32.
  const auto net = crumb::tasks::mlp(crumb::tasks::Normalise(0, 1), {16, 64, 32, 32, 5}).ptr();
  const at::Tensor x = torch::randn({5, 16});
  const auto bops = [&](const std::string& recipe) {
    Network network(captured(*net, x), recipe_of(recipe));
    network.calibrate({{x}});
    network.prune(1);
    return crumb::analysis::cost_of(
        crumb::graph::bind_shapes(crumb::graph::lower_or_fold_quantized(network.freeze()), {}));
  };
  const auto exact = bops("weights: keep\nprune: 0\n");
  CHECK(exact.sparse.bops_qap == 4652832);
  CHECK(exact.dense.bops_qap == 4652832);
  const std::pair<int, double> wanted[] = {{8, 583968}, {6, 412960}, {4, 267808}};
  for (const auto& [bits, dense] : wanted) {
    const std::string b = std::to_string(bits);
    CHECK(bops("weights: int" + b + ":channel\nactivations: uint" + b +
               ":tensor\nprune: 0.8\nrules: [{match: {name: fc1}, activations: keep}]\n")
              .dense.bops_qap == dense);
  }
  // 80 % of 4,256 weights gone: 3,404 multiplications fewer at 32 x 32 bits.
  CHECK(bops("weights: keep\nprune: 0.8\n").sparse.bops_qap == 4652832 - 3404 * 1024);
}

struct Module : torch::nn::Module {
  torch::nn::Linear fc1{nullptr}, fc2{nullptr}, fc3{nullptr};
  crumb::qat::QuantActivation act1{nullptr}, act2{nullptr};
  Module() {
    fc1 = register_module("fc1", torch::nn::Linear(8, 30));
    fc2 = register_module("fc2", torch::nn::Linear(30, 20));
    fc3 = register_module("fc3", torch::nn::Linear(20, 3));
    act1 = register_module("act1", crumb::qat::QuantActivation("uint4:tensor", 3));
    act2 = register_module("act2", crumb::qat::QuantActivation("uint4:tensor", 3));
  }
  at::Tensor forward(const at::Tensor& x) { return fc3(act2(torch::relu(fc2(act1(torch::relu(fc1(x))))))); }
};

TEST_CASE("pruning: hooked modules") {
  for (const char* text :
       {"weights: keep\n", "weights: int4:channel\nactivations: uint4:tensor\n",
        "weights: int4:channel\nactivations: uint4:tensor\naccumulator: 9:a2q_plus\n",
        "weights: int4:channel\nrules: [{match: {name: fc2}, skip: true}, {match: {name: fc2}, "
        "prune: 0.8}]\n"}) {
    CAPTURE(std::string(text));
    torch::manual_seed(9);
    const auto [x, y] = small_points();
    Module model, other;
    const Recipe recipe = recipe_of(std::string(text) + "prune: 0.8\n");
    crumb::qat::Hooks qat = crumb::qat::attach(model, recipe);
    torch::optim::AdamW optimizer(qat.parameter_groups({.learning_rate = 5e-3}));
    for (int i = 0; i < 30; ++i) {
      qat.prune(i / 30.0);
      const auto step = qat.step();
      const at::Tensor loss = torch::nn::functional::cross_entropy(model.forward(x), y) + qat.penalty();
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    }
    std::int64_t gone = 0;
    for (const PrunedLayer& layer : qat.pruned()) gone += layer.pruned;
    CHECK(gone == 720);
    model.eval();
    const torch::NoGradGuard no_gradients;
    at::Tensor expected;
    {
      const auto step = qat.step();
      expected = model.forward(x);
    }
    const Graph graph = crumb::qat::freeze(qat, model, {x});
    for (const PrunedLayer& layer : qat.pruned()) CHECK(zeros(graph, layer.name) >= layer.pruned);
    CHECK(crumb::testing::not_computed_by(graph, {x}, {expected}) == "");
    CHECK(crumb::testing::not_computed_by(graph, {x}, {outputs_of(graph, x)}) == "");
    CHECK(crumb::analysis::check_accumulators(graph).failures.empty());

    crumb::qat::Hooks again = crumb::qat::attach(other, recipe);
    std::stringstream file;
    torch::save(qat.quantizers(), file);
    torch::load(const_cast<std::shared_ptr<torch::nn::Module>&>(again.quantizers()), file);
    for (std::size_t i = 0; i < qat.pruned().size(); ++i)
      CHECK(again.pruned()[i].pruned == qat.pruned()[i].pruned);
    again.prune(0.5);  // was taken before
    for (std::size_t i = 0; i < qat.pruned().size(); ++i)
      CHECK(again.pruned()[i].pruned == qat.pruned()[i].pruned);
  }
  Module model;
  CHECK_THROWS_WITH_AS(crumb::qat::attach(model, recipe_of("weights: binary:channel\nprune: 0.5\n")),
                       doctest::Contains("fc2.weight"), crumb::Error);
}

}  // namespace

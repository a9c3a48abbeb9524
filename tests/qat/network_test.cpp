// Networks that train with quantizers in the loop: what they compute is what is frozen, to the order of sums in
// float32; bounds hold; state comes back.
#include "qat/network.h"

#include <doctest/doctest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/serialize.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <sstream>

#include "analysis/accumulator/check.h"
#include "graph/qonnx/quantized_constants.h"
#include "libtorch/capture/capture.h"
#include "libtorch/execute/graph_module.h"
#include "qat/weights/a2q.h"
#include "quant/accumulator/accumulator.h"
#include "tests/qat/networks.h"
#include "tests/support/enclosure.h"

namespace {

using crumb::Recipe;
using crumb::graph::Graph;
using crumb::qat::Network;
using crumb::testing::not_computed_by;
using crumb::testing::outputs_of;
using crumb::testing::recipe_of;

struct Mlp : torch::nn::Module {
  torch::nn::Linear fc1{nullptr}, fc2{nullptr}, fc3{nullptr}, fc4{nullptr};
  Mlp() {
    fc1 = register_module("fc1", torch::nn::Linear(12, 24));
    fc2 = register_module("fc2", torch::nn::Linear(24, 20));
    fc3 = register_module("fc3", torch::nn::Linear(20, 20));
    fc4 = register_module("fc4", torch::nn::Linear(20, 4));
  }
  at::Tensor forward(const at::Tensor& x) {
    return fc4(torch::relu(fc3(torch::relu(fc2(torch::relu(fc1(x)))))));
  }
};

struct Cnn : torch::nn::Module {
  torch::nn::Conv2d stem{nullptr}, depth{nullptr}, mix{nullptr};
  torch::nn::Linear head{nullptr};
  Cnn() {
    stem = register_module("stem", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 6, 3).padding(1)));
    depth =
        register_module("depth", torch::nn::Conv2d(torch::nn::Conv2dOptions(6, 6, 3).padding(1).groups(6)));
    mix = register_module("mix", torch::nn::Conv2d(torch::nn::Conv2dOptions(6, 8, 1)));
    head = register_module("head", torch::nn::Linear(8, 3));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor a = torch::relu(stem(x));
    const at::Tensor b = torch::relu(mix(torch::relu(depth(a) + a)));
    return head(b.mean({2, 3}));
  }
};

/// Four classes of points: learnable, not trivial.
std::pair<at::Tensor, at::Tensor> points(std::int64_t count, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  const at::Tensor x = torch::randn({count, 12}, generator);
  const at::Tensor y = ((x[0] * 0).sum() + (x.slice(1, 0, 6).sum(1) > 0).to(at::kLong) * 2 +
                        (x.slice(1, 6, 12).prod(1) > 0).to(at::kLong))
                           .to(at::kLong);
  return {x, y};
}

double train(Network& network, const at::Tensor& x, const at::Tensor& y, int steps) {
  torch::optim::AdamW optimizer(network.parameter_groups({.learning_rate = 3e-3, .weight_decay = 1e-4}));
  double loss_now = 0;
  network.train();
  for (int step = 0; step < steps; ++step) {
    at::Tensor loss = torch::nn::functional::cross_entropy(network.forward(x), y) + network.penalty();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    loss_now = loss.item<double>();
  }
  return loss_now;
}

const std::string kRecipes[] = {
    "weights: int4:channel\nactivations: uint4:tensor\n",
    "weights: int4:channel\nactivations: uint4:tensor\nbiases: int32\n",
    "weights: int8:channel:search=mse\nactivations: int8:tensor:search=mse\nscales: statistics\n",
    "weights: int2h:channel:search=mse\nactivations: uint8:tensor\n",
    "weights: e2m1:channel\nactivations: e3m2:tensor\n",
    "weights: mxfp4\nactivations: uint8:tensor\nrules: [{match: {name: \"fc1\"}, weights: int8:channel}, "
    "{match: {name: \"*\"}, weights: int4:group=4}]\n",
    "weights: ternary:tensor\nactivations: uint8:tensor:zero=int\nscales: mean\n",
    "weights: binary:channel\nactivations: uint4:tensor\n",
    "weights: int4:channel:scale=e8m0\nactivations: uint4:tensor:scale=e8m0\n",
    "weights: int6:channel\nactivations: uint6:tensor\nscales: weight_norm\n",
    "weights: int8:channel\nactivations: uint8:token\n",
    "weights: int4:channel\nactivations: e4m3fn:token\ninputs: uint8:tensor:zero=int\n",
    "weights: int4:channel\nactivations: uint4:tensor\naccumulator: 9:a2q_plus\n",
    "weights: int4:channel:scale=e8m0\nactivations: uint4:tensor\naccumulator: \"10:a2q:tile=8\"\nbiases: "
    "int16\n",
};

TEST_CASE("qat network: what it computes is what is frozen") {
  torch::manual_seed(1);
  const auto [x, y] = points(96, 5);
  for (const std::string& text : kRecipes) {
    CAPTURE(text);
    auto mlp = std::make_shared<Mlp>();
    Network network(crumb::libtorch::capture(*mlp, {x}), recipe_of(text));
    CHECK_THROWS_WITH_AS(network.forward(x), doctest::Contains("calibrate"), crumb::Error);
    network.calibrate({{x.slice(0, 0, 48)}, {x.slice(0, 48, 96)}});
    const double before = train(network, x, y, 1), after = train(network, x, y, 30);
    CHECK(after < before);
    network.eval();
    const torch::NoGradGuard no_gradients;
    const at::Tensor expected = network.forward(x);
    const Graph frozen = network.freeze();
    const at::Tensor found = outputs_of(frozen, x);
    CHECK(not_computed_by(frozen, {x}, {expected}) == "");
    CHECK(not_computed_by(frozen, {x}, {found}) == "");
    CHECK(at::equal(network.forward(x), expected));  // freezing changes nothing
  }
}

TEST_CASE("qat network: one that begins with codes has these, with their scales") {
  torch::manual_seed(3);
  const auto [x, y] = points(96, 5);
  std::size_t differ = 0;  // from what a search finds for the same values
  for (const std::string spec :
       {"int2h:group=4", "int2h:channel:scale=f16", "ternary:group=4", "int3:tensor", "int4:group=5:pad",
        "uint4:group=4:zero=int", "uint3:channel:zero=float", "e2m1:group=4", "binary:channel"}) {
    CAPTURE(spec);
    auto mlp = std::make_shared<Mlp>();
    const Graph floats = crumb::libtorch::capture(*mlp, {x});
    const Recipe recipe = recipe_of("weights: " + spec + "\n");
    Network network(floats, recipe);
    network.calibrate({});
    train(network, x, y, 30);  // scales are no search's any more
    network.eval();
    const Graph first = network.freeze();
    Network second(crumb::graph::fold_quantized(first), recipe);
    second.begin_with(first.quantized);
    second.calibrate({});
    second.eval();
    const Graph begun = second.freeze();
    Network searched(crumb::graph::fold_quantized(first), recipe);
    searched.calibrate({});
    searched.eval();
    const Graph found = searched.freeze();
    for (const auto& [name, constant] : first.quantized) {
      CAPTURE(name);
      const auto was = constant.tensor->view(), is = begun.quantized.at(name).tensor->view();
      CHECK(std::ranges::equal(was.codes, is.codes));
      CHECK(std::ranges::equal(was.scales, is.scales));
      CHECK(std::ranges::equal(was.zeros, is.zeros));
      differ += !std::ranges::equal(was.scales, found.quantized.at(name).tensor->view().scales);
    }
    CHECK(first.quantized.size() == 4);
    for (const std::string says : {"int8:channel", "keep"}) {
      Network other(floats, recipe_of("weights: " + says + "\n"));
      CHECK_THROWS_WITH_AS(other.begin_with(first.quantized),
                           doctest::Contains(("the recipe says " + says).c_str()), crumb::Error);
    }
  }
  CHECK(differ > 4);
}

TEST_CASE("qat network: codes that are fixed stay, and their scales learn what they can") {
  torch::manual_seed(4);
  const auto [x, y] = points(96, 5);
  for (const std::string spec :
       {"int2h:group=4", "int2h:channel:scale=f16", "ternary:group=4", "int3:tensor", "int4:group=5:pad",
        "uint4:group=4:zero=int", "uint3:channel:zero=float", "e2m1:group=4", "binary:channel",
        "int4:block=4x2", "int4:group=3:pad:scale=e8m0"}) {
    CAPTURE(spec);
    auto mlp = std::make_shared<Mlp>();
    const Recipe recipe = recipe_of("weights: " + spec + "\n");
    Network network(crumb::libtorch::capture(*mlp, {x}), recipe);
    network.calibrate({});
    network.eval();
    const Graph first = network.freeze();
    const at::Tensor expected = network.forward(x);
    network.fix_codes();
    CHECK(at::equal(network.forward(x), expected));
    const double before = train(network, x, y, 1), after = train(network, x, y, 40);
    CHECK(after < before);
    network.eval();
    const Graph frozen = network.freeze();
    const at::Tensor found = network.forward(x);
    CHECK(not_computed_by(frozen, {x}, {found}) == "");
    std::size_t moved = 0;
    for (const auto& [name, constant] : first.quantized) {
      const auto was = constant.tensor->view(), is = frozen.quantized.at(name).tensor->view();
      CHECK(std::ranges::equal(was.codes, is.codes));
      CHECK(std::ranges::equal(was.zeros, is.zeros));
      moved += !std::ranges::equal(was.scales, is.scales);
    }
    CHECK(moved == 4);
    // What was kept comes back.
    std::stringstream kept;
    torch::serialize::OutputArchive out;
    network.save(out);
    out.save_to(kept);
    Network other(crumb::libtorch::capture(*mlp, {x}), recipe);
    other.fix_codes();
    torch::serialize::InputArchive in;
    in.load_from(kept);
    other.load(in);
    other.eval();
    CHECK(at::equal(other.forward(x), found));
  }
  for (const std::string spec :
       {"int4:channel\naccumulator: 9:a2q\nactivations: uint4:tensor", "mxfp4:pad"}) {
    auto mlp = std::make_shared<Mlp>();
    Network network(crumb::libtorch::capture(*mlp, {x}), recipe_of("weights: " + spec + "\n"));
    network.calibrate({{x}});
    CHECK_THROWS_WITH_AS(network.fix_codes(), doctest::Contains("has no scales that learn"), crumb::Error);
  }
}

TEST_CASE("qat network: constrained layers fit at every step, whatever the optimizer does") {
  torch::manual_seed(2);
  const auto [x, y] = points(64, 6);
  for (const char* method : {"a2q", "a2q_plus"}) {
    for (const int bits : {7, 8, 12}) {
      CAPTURE(method);
      CAPTURE(bits);
      auto mlp = std::make_shared<Mlp>();
      Network network(crumb::libtorch::capture(*mlp, {x}),
                      recipe_of("weights: int4:channel\nactivations: uint4:tensor\naccumulator: " +
                                std::to_string(bits) + ":" + method + "\n"));
      network.calibrate({{x}});
      for (int round = 0; round < 5; ++round) {
        train(network, x, y, 4);
        const Graph frozen = network.freeze();
        const auto report = crumb::analysis::check_accumulators(frozen);
        CHECK(report.failures.empty());
        CHECK(std::ranges::count_if(report.layers, [](const auto& row) { return row.constrained; }) == 2);
        CHECK(std::ranges::all_of(report.layers,
                                  [](const auto& row) { return row.bits_certified.has_value(); }));
        for (const char* name : {"fc2.weight", "fc3.weight"}) {
          const crumb::graph::QuantizedConstant& weight = frozen.quantized.at(name);
          const crumb::RowDecoder decoder(weight.tensor->view());
          for (std::uint64_t row = 0; row < decoder.rows(); ++row) {
            std::vector<float> values(decoder.cols());
            decoder.values(row, 0, values);
            std::vector<std::int64_t> codes;
            for (const float value : values) codes.push_back(std::llround(value / decoder.scale(row)));
            CHECK(crumb::fits(*crumb::worst_sums(codes, crumb::integer_range(4, false)), bits));
          }
        }
      }
    }
  }
}

TEST_CASE("qat network: bounds hold for inputs with a scale for each token") {
  torch::manual_seed(2);
  const auto [x, y] = points(64, 6);
  auto mlp = std::make_shared<Mlp>();
  Network network(crumb::libtorch::capture(*mlp, {x}),
                  recipe_of("weights: int4:channel\nactivations: uint4:token\naccumulator: 8:a2q_plus\n"));
  network.calibrate({{x}});
  for (int round = 0; round < 3; ++round) {
    train(network, x, y, 5);
    const auto report = crumb::analysis::check_accumulators(network.freeze());
    CHECK(report.failures.empty());
    CHECK(std::ranges::count_if(report.layers, [](const auto& row) {
            return row.constrained && row.bits_certified && *row.bits_needed <= 8;
          }) == 2);
  }
}

TEST_CASE("qat network: the first and the last layer are constrained only when asked") {
  const auto [x, y] = points(16, 7);
  auto mlp = std::make_shared<Mlp>();
  const Graph graph = crumb::libtorch::capture(*mlp, {x});
  const Recipe recipe =
      recipe_of("weights: int4:channel\nactivations: int4:tensor\naccumulator: 8:a2q_plus\n");
  const auto constrained = [&](Network& network) {
    int count = 0;
    for (const auto& layer : network.accumulators()) count += layer.bits > 0;
    return count;
  };
  Network inner(graph, recipe);
  CHECK(constrained(inner) == 2);
  Network all(graph, recipe, {.all_layers = true});
  CHECK(constrained(all) == 4);
}

TEST_CASE("qat network: a convolutional network with a residual sum") {
  torch::manual_seed(4);
  const at::Tensor x = torch::rand({12, 1, 6, 6}), y = torch::arange(12) % 3;
  auto cnn = std::make_shared<Cnn>();
  Network network(crumb::libtorch::capture(*cnn, {x}),
                  recipe_of("weights: int4:channel\nactivations: uint4:tensor\naccumulator: 10:a2q_plus\n"));
  network.calibrate({{x}});
  const double before = train(network, x, y, 1);
  CHECK(train(network, x, y, 60) < before);
  network.eval();
  const torch::NoGradGuard no_gradients;
  const at::Tensor expected = network.forward(x);
  const Graph frozen = network.freeze();
  CHECK(not_computed_by(frozen, {x}, {expected}) == "");
  CHECK(not_computed_by(frozen, {x}, {outputs_of(frozen, x)}) == "");
}

struct Inner : torch::nn::Module {
  torch::nn::Linear b{nullptr};
  Inner() { b = register_module("b", torch::nn::Linear(5, 5)); }
};

/// Weights "a.b.weight" and "a_b.weight".
struct AlikeNames : torch::nn::Module {
  std::shared_ptr<Inner> a;
  torch::nn::Linear a_b{nullptr};
  AlikeNames() {
    a = register_module("a", std::make_shared<Inner>());
    a_b = register_module("a_b", torch::nn::Linear(5, 3));
  }
  at::Tensor forward(const at::Tensor& x) { return a_b(torch::relu(a->b(x))); }
};

TEST_CASE("qat network: names that dots alone tell apart") {
  torch::manual_seed(3);
  const at::Tensor x = torch::randn({6, 5});
  auto module = std::make_shared<AlikeNames>();
  Network network(crumb::libtorch::capture(*module, {x}),
                  recipe_of("weights: int4:channel\nactivations: uint4:tensor\n"));
  network.calibrate({{x}});
  const auto names = network.named_parameters();
  CHECK(names.contains("quantizers.a_b_weight.scale"));
  CHECK(names.contains("quantizers.a_b_weight_2.scale"));
  network.eval();
  const torch::NoGradGuard no_gradients;
  const Graph frozen = network.freeze();
  CHECK(not_computed_by(frozen, {x}, {network.forward(x)}) == "");
  CHECK(not_computed_by(frozen, {x}, {outputs_of(frozen, x)}) == "");
}

TEST_CASE("qat network: means that are truncated") {
  torch::manual_seed(4);
  const at::Tensor x = torch::rand({12, 1, 6, 6}), y = torch::arange(12) % 3;
  auto cnn = std::make_shared<Cnn>();
  Network network(
      crumb::libtorch::capture(*cnn, {x}),
      recipe_of(
          "weights: int8:channel\nactivations: uint4:tensor\naverage_pools: truncate\nbiases: int32\n"));
  network.calibrate({{x}});
  const double before = train(network, x, y, 1);
  CHECK(train(network, x, y, 60) < before);
  network.eval();
  const torch::NoGradGuard no_gradients;
  const Graph frozen = network.freeze();
  CHECK(std::ranges::count(frozen.nodes, "Trunc", &crumb::graph::Node::op) == 1);
  CHECK(not_computed_by(frozen, {x}, {network.forward(x)}) == "");
  CHECK(not_computed_by(frozen, {x}, {outputs_of(frozen, x)}) == "");
  const auto report = crumb::analysis::check_accumulators(frozen);
  CHECK(std::ranges::all_of(report.layers, [](const auto& row) { return row.bits_needed.has_value(); }));
}

TEST_CASE("qat network: saved and loaded, float checkpoints too") {
  torch::manual_seed(5);
  const auto [x, y] = points(32, 8);
  const Recipe recipe =
      recipe_of("weights: int4:channel\nactivations: uint4:tensor\naccumulator: 9:a2q_plus\n");
  auto mlp = std::make_shared<Mlp>(), other = std::make_shared<Mlp>();
  auto network = std::make_shared<Network>(crumb::libtorch::capture(*mlp, {x}), recipe);
  network->calibrate({{x}});
  train(*network, x, y, 5);
  std::stringstream file;
  torch::save(network, file);
  auto again = std::make_shared<Network>(crumb::libtorch::capture(*other, {x}), recipe);
  torch::load(again, file);
  const torch::NoGradGuard no_gradients;
  CHECK(at::equal(again->forward(x), network->forward(x)));

  std::stringstream floats;
  torch::save(other, floats);
  auto third = std::make_shared<Network>(crumb::libtorch::capture(*mlp, {x}), recipe);
  torch::load(third, floats);
  CHECK(at::allclose(third->forward_float({x})[0], other->forward(x), 1e-6, 1e-6));
  CHECK_THROWS_WITH_AS(third->forward(x), doctest::Contains("calibrate"), crumb::Error);

  // And the other way round: the float module reads its parameters out of the network's file.
  std::stringstream back;
  torch::save(network, back);
  torch::load(mlp, back);
  CHECK(at::equal(mlp->fc2->weight, network->named_parameters()["fc2.weight"]));
}

TEST_CASE("qat network: what cannot be constrained is said at once") {
  const auto [x, y] = points(16, 9);
  auto mlp = std::make_shared<Mlp>();
  const Graph graph = crumb::libtorch::capture(*mlp, {x});
  const auto refused = [&](const std::string& yaml, const char* word) {
    CHECK_THROWS_WITH_AS(Network(graph, recipe_of(yaml)), doctest::Contains(word), crumb::Error);
  };
  refused("weights: int2h:channel\nactivations: uint4:tensor\naccumulator: 8:a2q\n", "no zero");
  refused("weights: binary:channel\nactivations: uint4:tensor\naccumulator: 8:a2q\n", "fc2.weight");
  refused("weights: int4:group=4\nactivations: uint4:tensor\naccumulator: 8:a2q\n", "int4:channel");
  refused("weights: int4:channel\naccumulator: 8:a2q\n", "no quantizer");
  refused("weights: int4:channel\nactivations: e2m1:tensor\naccumulator: 8:a2q\n", "e2m1");
}

TEST_CASE("qat network: parameter groups") {
  const auto [x, y] = points(16, 10);
  auto mlp = std::make_shared<Mlp>();
  Network network(crumb::libtorch::capture(*mlp, {x}),
                  recipe_of("weights: int4:channel\nactivations: uint4:tensor\n"));
  const auto groups = network.parameter_groups({.learning_rate = 0.1, .weight_decay = 0.5});
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].params().size() == 4);
  CHECK(groups[1].params().size() == 4);  // biases
  CHECK(groups[2].params().size() == 8);  // scales of weights and activations
  const auto decay = [&](std::size_t i) {
    return static_cast<const torch::optim::AdamWOptions&>(groups[i].options()).weight_decay();
  };
  CHECK(decay(0) == 0.5);
  CHECK(decay(1) == 0);
  CHECK(decay(2) == 0);
}

/// Linear layers on three axes, and an attention whose projections are parts of one parameter.
struct Block : torch::nn::Module {
  torch::nn::MultiheadAttention attention{nullptr};
  torch::nn::Linear up{nullptr}, down{nullptr};
  Block() {
    attention = register_module("attention", torch::nn::MultiheadAttention(8, 2));
    up = register_module("up", torch::nn::Linear(8, 16));
    down = register_module("down", torch::nn::Linear(torch::nn::LinearOptions(16, 8).bias(false)));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor t = x.transpose(0, 1);
    const at::Tensor a = (t + std::get<0>(attention->forward(t, t, t))).transpose(0, 1);
    return (a + down(torch::relu(up(a)))).mean(1);
  }
};

TEST_CASE("qat network: what is computed from parameters leaves them their names and shapes") {
  torch::manual_seed(8);
  const at::Tensor x = torch::randn({16, 5, 8}), y = torch::randint(8, {16});
  for (const char* text : {"weights: int4:channel\nactivations: int6:tensor\n", "weights: int8:channel\n",
                           "weights: int4:channel\nactivations: uint4:tensor\naccumulator: 12:a2q_plus\n"}) {
    CAPTURE(text);
    auto block = std::make_shared<Block>();
    block->eval();
    Network network(crumb::libtorch::capture(*block, {x}), recipe_of(text));
    std::map<std::string, std::vector<std::int64_t>> wanted, found;
    for (const auto& own : block->named_parameters()) wanted[own.key()] = own.value().sizes().vec();
    for (const auto& own : network.named_parameters()) {
      if (!own.key().starts_with("quantizers.")) found[own.key()] = own.value().sizes().vec();
    }
    CHECK(found == wanted);

    // A checkpoint of the float module loads, and the module loads the network's.
    auto other = std::make_shared<Block>();
    other->eval();
    std::stringstream saved;
    torch::save(other, saved);
    torch::serialize::InputArchive archive;
    archive.load_from(saved);
    network.load(archive);
    {
      const torch::NoGradGuard no_gradients;
      CHECK(at::allclose(network.forward_float({x}).at(0), other->forward(x), 1e-4, 1e-5));
    }

    network.calibrate({{x}});
    const double before = train(network, x, y, 1);
    CHECK(train(network, x, y, 20) < before);
    network.eval();
    const torch::NoGradGuard no_gradients;
    const at::Tensor expected = network.forward(x);
    const Graph frozen = network.freeze();
    CHECK(not_computed_by(frozen, {x}, {expected}) == "");
    CHECK(not_computed_by(frozen, {x}, {outputs_of(frozen, x)}) == "");

    std::stringstream trained;
    torch::serialize::OutputArchive out;
    network.save(out);
    out.save_to(trained);
    torch::serialize::InputArchive back;
    back.load_from(trained);
    block->load(back);
    CHECK(at::allclose(network.forward_float({x}).at(0), block->forward(x), 1e-4, 1e-5));
  }
}

}  // namespace

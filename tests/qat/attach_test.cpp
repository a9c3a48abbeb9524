// Hooks on ordinary modules: weights read as quantized inside a step, gradients reach the latent ones, frozen codes are
// those of the last step.
#include "qat/attach.h"

#include <doctest/doctest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>
#include <torch/optim/adamw.h>
#include <torch/serialize.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <sstream>

#include "analysis/accumulator/check.h"
#include "libtorch/capture/capture.h"
#include "libtorch/execute/graph_module.h"
#include "libtorch/fake_quantize.h"
#include "qat/quant_activation.h"
#include "qat/weights/weight_slots.h"
#include "tests/qat/networks.h"
#include "tests/support/enclosure.h"

namespace {

using crumb::Recipe;
using crumb::qat::Hooks;
using crumb::qat::QuantActivation;
using crumb::testing::recipe_of;

struct HookedMlp : torch::nn::Module {
  torch::nn::Linear fc1{nullptr}, fc2{nullptr}, fc3{nullptr};
  QuantActivation input{nullptr}, act1{nullptr}, act2{nullptr};
  explicit HookedMlp(const char* hidden = "uint4:tensor") {
    fc1 = register_module("fc1", torch::nn::Linear(10, 16));
    fc2 = register_module("fc2", torch::nn::Linear(16, 16));
    fc3 = register_module("fc3", torch::nn::Linear(16, 3));
    input = register_module("input", QuantActivation("int8:tensor", 5));
    act1 = register_module("act1", QuantActivation(hidden, 5));
    act2 = register_module("act2", QuantActivation(hidden, 5));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor a = act1(torch::relu(fc1(input(x))));
    return fc3(act2(torch::relu(fc2(a))));
  }
};

/// Every kind of layer that has a slot.
struct Zoo : torch::nn::Module {
  torch::nn::Conv1d conv1{nullptr};
  torch::nn::Conv2d conv2{nullptr};
  torch::nn::Conv3d conv3{nullptr};
  torch::nn::ConvTranspose1d up1{nullptr};
  torch::nn::ConvTranspose2d up2{nullptr};
  torch::nn::ConvTranspose3d up3{nullptr};
  torch::nn::Embedding table{nullptr};
  torch::nn::LSTM lstm{nullptr};
  torch::nn::GRU gru{nullptr};
  torch::nn::RNN rnn{nullptr};
  torch::nn::GRUCell cell{nullptr};
  torch::nn::MultiheadAttention attention{nullptr};
  torch::nn::Linear head{nullptr};

  Zoo() {
    conv1 = register_module("conv1", torch::nn::Conv1d(4, 4, 3));
    conv2 = register_module("conv2", torch::nn::Conv2d(1, 2, 3));
    conv3 = register_module("conv3", torch::nn::Conv3d(1, 2, 2));
    up1 = register_module("up1", torch::nn::ConvTranspose1d(4, 2, 2));
    up2 = register_module("up2", torch::nn::ConvTranspose2d(2, 3, 2));
    up3 = register_module("up3", torch::nn::ConvTranspose3d(2, 1, 2));
    table = register_module("table", torch::nn::Embedding(9, 4));
    lstm = register_module("lstm",
                           torch::nn::LSTM(torch::nn::LSTMOptions(4, 4).num_layers(2).bidirectional(true)));
    gru = register_module("gru", torch::nn::GRU(8, 4));
    rnn = register_module("rnn", torch::nn::RNN(4, 4));
    cell = register_module("cell", torch::nn::GRUCell(4, 4));
    attention = register_module("attention", torch::nn::MultiheadAttention(4, 2));
    head = register_module("head", torch::nn::Linear(4, 4));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = table(tokens);                                  // [6, 5, 4]
    x = std::get<0>(rnn(std::get<0>(gru(std::get<0>(lstm(x))))));  // [6, 5, 4]
    x = std::get<0>(attention(x, x, x));
    x = head(cell(x.flatten(0, 1)).view(x.sizes()));
    at::Tensor sum = conv1(x.permute({1, 2, 0})).sum() + up1(x.permute({1, 2, 0})).sum();
    const at::Tensor image = x.unsqueeze(0).permute({2, 0, 1, 3});  // [5, 1, 6, 4]
    sum = sum + up2(conv2(image)).sum();
    return sum + up3(conv3(image.unsqueeze(2).repeat({1, 1, 3, 1, 1}))).sum();
  }
};

TEST_CASE(
    "hooks: every kind of layer reads its weight as quantized, and its latent weight gets the gradient") {
  torch::manual_seed(11);
  Zoo zoo;
  const at::Tensor tokens = torch::randint(9, {6, 5}, at::kLong);
  const auto slots = crumb::qat::weight_slots(zoo);
  // 2 layers, 2 directions, 2 weights each; gru, rnn and the cell 2 each; attention's projection and its output's.
  CHECK(slots.size() == 3 + 3 + 1 + 8 + 2 + 2 + 2 + 2 + 1);
  Hooks hooks = crumb::qat::attach(
      zoo, recipe_of("weights: int3:channel\nembeddings: int3:channel\nscales: statistics\n"));
  const at::Tensor as_is = zoo.forward(tokens);
  // What it would compute with quantized parameters.
  std::vector<at::Tensor> kept;
  at::Tensor expected;
  {
    const torch::NoGradGuard no_gradients;
    for (const auto& slot : slots) {
      kept.push_back(slot.latent.clone());
      const at::Tensor rows = slot.output_axis == 0 ? slot.latent : slot.latent.transpose(0, 1).contiguous();
      const at::Tensor made = crumb::fake_quantize(rows, "int3:channel");
      slot.latent.copy_(slot.output_axis == 0 ? made : made.transpose(0, 1));
    }
    expected = zoo.forward(tokens);
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i].latent.copy_(kept[i]);
  }
  {
    const auto step = hooks.step();
    const at::Tensor found = zoo.forward(tokens);
    CHECK(at::allclose(found, expected, 1e-4, 1e-4));
    CHECK_FALSE(at::allclose(found, as_is, 1e-4, 1e-4));
    found.backward();
    for (const auto& slot : slots) {
      CAPTURE(slot.name);
      CHECK(slot.latent.grad().defined());
      CHECK(zoo.named_parameters()[slot.name].is_same(slot.latent));
    }
  }
  CHECK(at::equal(zoo.forward(tokens), as_is));
}

TEST_CASE("hooks: a training script, and what is frozen is what it trained") {
  torch::manual_seed(12);
  for (const char* recipe : {"weights: int4:channel\nactivations: uint4:tensor\n",
                             "weights: int4:channel\nactivations: uint4:tensor\naccumulator: 9:a2q_plus\n",
                             "weights: int2h:tensor:search=mse\nactivations: uint4:tensor\n"}) {
    CAPTURE(std::string(recipe));
    HookedMlp model;
    Hooks qat = crumb::qat::attach(model, recipe_of(recipe));
    torch::optim::AdamW optimizer(qat.parameter_groups({.learning_rate = 5e-3}));
    const at::Tensor x = torch::randn({64, 10}),
                     y = (x.sum(1) > 0).to(at::kLong) + (x.slice(1, 0, 1).squeeze(1) > 1).to(at::kLong);
    double first = 0, last = 0;
    for (int i = 0; i < 40; ++i) {
      const auto step = qat.step();
      const at::Tensor loss = torch::nn::functional::cross_entropy(model.forward(x), y) + qat.penalty();
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      (i == 0 ? first : last) = loss.item<double>();
    }
    CHECK(last < first);
    model.eval();
    const torch::NoGradGuard no_gradients;
    at::Tensor expected;
    {
      const auto step = qat.step();
      expected = model.forward(x);
    }
    const crumb::graph::Graph graph = crumb::qat::freeze(qat, model, {x});
    CHECK(graph.quantized.size() == 3);
    crumb::libtorch::GraphModule module(graph);
    const at::Tensor found = module.run({crumb::libtorch::typed(x)})[0].tensor;
    CHECK(crumb::testing::not_computed_by(graph, {x}, {expected}) == "");
    CHECK(crumb::testing::not_computed_by(graph, {x}, {found}) == "");
    const auto report = crumb::analysis::check_accumulators(graph);
    CHECK(report.failures.empty());
    for (const auto& layer : qat.accumulators()) CHECK(layer.bits == 9);
  }
}

TEST_CASE("hooks: freezing refuses a certificate that the network's own activations do not bear out") {
  torch::manual_seed(13);
  HookedMlp model("uint8:tensor");
  Hooks qat = crumb::qat::attach(
      model, recipe_of("weights: int4:channel\nactivations: uint4:tensor\naccumulator: 9:a2q\n"));
  const at::Tensor x = torch::randn({8, 10});
  {
    const auto step = qat.step();
    model.forward(x);
  }
  model.eval();
  CHECK_THROWS_WITH_AS(crumb::qat::freeze(qat, model, {x}), doctest::Contains("fc2"), crumb::Error);
}

TEST_CASE("hooks: rules by name and operator; the quantizers' state is saved beside the module") {
  torch::manual_seed(14);
  HookedMlp model, other;
  const Recipe recipe = recipe_of(
      "weights: int4:channel\nrules:\n  - {match: {name: \"fc1\"}, skip: true}\n  - {match: {op: Linear, "
      "name: \"fc3\"}, "
      "weights: int8:channel}\n");
  Hooks qat = crumb::qat::attach(model, recipe), again = crumb::qat::attach(other, recipe);
  const auto names = qat.quantizers()->named_parameters();
  CHECK(names.contains("fc2_weight.scale"));
  CHECK(names.contains("fc3_weight.scale"));
  CHECK_FALSE(names.contains("fc1_weight.scale"));
  std::stringstream file, quantizers;
  auto shared = std::make_shared<HookedMlp>();
  torch::save(qat.quantizers(), quantizers);
  torch::load(const_cast<std::shared_ptr<torch::nn::Module>&>(again.quantizers()), quantizers);
  CHECK(at::equal(again.quantizers()->named_parameters()["fc2_weight.scale"], names["fc2_weight.scale"]));
  CHECK_THROWS_WITH_AS(
      crumb::qat::attach(model, recipe_of("weights: int4\nrules: [{match: {name: \"fc9\"}, skip: true}]\n")),
      doctest::Contains("fc9"), crumb::Error);
  CHECK_THROWS_WITH_AS(crumb::qat::attach(model, recipe_of("weights: int4:channel\naccumulator: 9:a2q\n")),
                       doctest::Contains("activations"), crumb::Error);
}

TEST_CASE("quant activation: observes, then learns; refuses what its format cannot say") {
  torch::manual_seed(15);
  QuantActivation act("uint4:tensor", 3);
  act->eval();
  CHECK_THROWS_WITH_AS(act(torch::rand({4})), doctest::Contains("training mode"), crumb::Error);
  act->train();
  for (int i = 0; i < 3; ++i) act(torch::rand({8, 4}) * (i + 1));
  const at::Tensor scale = act->named_parameters()["quantizer.scale"].detach().clone();
  act(torch::rand({8, 4}) * 100);
  CHECK(at::equal(scale, act->named_parameters()["quantizer.scale"]));
  const at::Tensor x = torch::rand({8, 4}, at::requires_grad());
  act(x).sum().backward();
  CHECK(act->named_parameters()["quantizer.scale"].grad().defined());
  QuantActivation fresh("uint4:tensor");
  CHECK_THROWS_WITH_AS(fresh(torch::randn({64})), doctest::Contains("no sign"), crumb::Error);
}

}  // namespace

TEST_CASE("qat activation: a moving average over batches learns on, and is captured") {
  torch::manual_seed(4);
  HookedMlp mlp("uint4:search=ema");
  const at::Tensor samples = torch::randn({7, 10});
  for (int i = 0; i < 5; ++i) mlp.forward(samples * (i + 1));
  mlp.forward(samples).sum().backward();
  CHECK(mlp.act1->named_parameters()["quantizer.scale"].grad().defined());
  mlp.eval();
  const torch::NoGradGuard no_gradients;
  const crumb::graph::Graph graph = crumb::libtorch::capture(mlp, {samples});
  CHECK(crumb::testing::not_computed_by(graph, {samples}, {mlp.forward(samples)}) == "");
}

TEST_CASE("qat activation: one scale for each token, also where it is captured") {
  torch::manual_seed(3);
  const at::Tensor x =
      torch::randn({4, 6, 10}, at::requires_grad()) * torch::logspace(-2, 2, 6).view({1, 6, 1});
  QuantActivation act("int8:token");
  CHECK(act->parameters().empty());
  const at::Tensor y = act(x), scale = x.abs().amax(-1, true) / 127;
  CHECK(at::equal(y, (x / scale).round() * scale));
  CHECK(at::equal(torch::autograd::grad({y.sum()}, {x})[0], torch::ones_like(x)));
  const at::Tensor nothing = act(torch::zeros({3, 5}));
  CHECK(at::equal(nothing, torch::zeros({3, 5})));
  CHECK_THROWS_WITH_AS(QuantActivation("uint8:token")(x), doctest::Contains("no sign"), crumb::Error);

  HookedMlp mlp("uint4:token");
  const at::Tensor samples = torch::randn({7, 10});
  for (int i = 0; i < 5; ++i) mlp.forward(samples);
  mlp.eval();
  const torch::NoGradGuard no_gradients;
  const crumb::graph::Graph graph = crumb::libtorch::capture(mlp, {samples});
  CHECK(std::ranges::count(graph.nodes, "ReduceMax", &crumb::graph::Node::op) == 2);
  crumb::libtorch::GraphModule module(graph);
  const at::Tensor found = module.run({crumb::libtorch::typed(samples)})[0].tensor;
  CHECK(crumb::testing::not_computed_by(graph, {samples}, {mlp.forward(samples)}) == "");
  CHECK(crumb::testing::not_computed_by(graph, {samples}, {found}) == "");
}

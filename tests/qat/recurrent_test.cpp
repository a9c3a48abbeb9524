// Recurrent layers that train as cells with quantizers inside: parameters keep their names, steps share their scales, and
// what trains is what is frozen: the same codes and scales, and outputs within what rounding explains.
#include <ATen/Parallel.h>
#include <doctest/doctest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <set>

#include "graph/passes/passes.h"
#include "graph/quantize/plan.h"
#include "graph/recurrent_cell.h"
#include "libtorch/capture/capture.h"
#include "libtorch/execute/graph_module.h"
#include "qat/attach.h"
#include "qat/network.h"
#include "tests/qat/networks.h"
#include "tests/support/enclosure.h"

namespace {

using crumb::Recipe;
using crumb::graph::Graph;
using crumb::qat::Network;
using crumb::testing::not_computed_by;
using crumb::testing::recipe_of;

constexpr std::int64_t kSteps = 6, kInputs = 5, kUnits = 7, kLabels = 4;

/// A sequence to scores of its steps.
template <class Layer, class Options>
struct Reader : torch::nn::Module {
  Layer layer{nullptr};
  torch::nn::Linear fc{nullptr};
  explicit Reader(bool both, bool biased = true) {
    layer = register_module(
        "layer", Layer(Options(kInputs, kUnits).bidirectional(both).batch_first(true).bias(biased)));
    fc = register_module("fc", torch::nn::Linear(both ? 2 * kUnits : kUnits, kLabels));
  }
  at::Tensor forward(const at::Tensor& x) { return fc(std::get<0>(layer->forward(x))); }
};

template <class Module>
void check_training(Module& module, const Recipe& recipe) {
  const at::Tensor x = torch::randn({12, kSteps, kInputs}), y = torch::randint(kLabels, {12, kSteps});
  module.eval();
  const Graph captured = crumb::libtorch::capture(module, {x});
  Network network(captured, recipe);

  std::set<std::string> wanted, found;
  for (const auto& parameter : module.named_parameters()) wanted.insert(parameter.key());
  for (const auto& parameter : network.named_parameters()) {
    if (!parameter.key().starts_with("quantizers.")) found.insert(parameter.key());
  }
  CHECK(found == wanted);
  {
    const torch::NoGradGuard no_gradients;
    CHECK(at::allclose(network.forward_float({x}).at(0), module.forward(x), 1e-5, 1e-6));
  }
  network.calibrate({{x}});
  torch::optim::AdamW optimizer(network.parameter_groups({.learning_rate = 1e-2, .weight_decay = 0}));
  double first = 0, last = 0;
  for (int step = 0; step < 15; ++step) {
    const at::Tensor loss =
        torch::nn::functional::cross_entropy(network.forward(x).flatten(0, 1), y.flatten());
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item<double>();
  }
  CHECK(last < first);
  network.eval();
  const torch::NoGradGuard no_gradients;
  const at::Tensor expected = network.forward(x);
  const Graph frozen = network.freeze();
  crumb::libtorch::GraphModule frozen_module(frozen);
  const at::Tensor made = frozen_module.run({crumb::libtorch::typed(x)})[0].tensor;
  CHECK(not_computed_by(frozen, {x}, {expected}) == "");
  CHECK(not_computed_by(frozen, {x}, {made}) == "");
  for (const std::string& name : wanted) {
    if (name.starts_with("layer.weight")) CHECK(frozen.quantized.contains(name));
  }
}

TEST_CASE("qat recurrent: LSTM, GRU and RNN train as cells, and freeze to what they computed") {
  torch::manual_seed(4);
  at::set_num_threads(1);  // matrices of a few numbers: threads would wait for each other
  const char* const recipes[] = {
      "weights: int4:channel\nactivations: uint4:tensor\n",
      "weights: int4:channel\nactivations: uint4:tensor\nbiases: int32\n",
      "weights: int2:channel\nactivations: uint2:tensor\n",
      "weights: e2m1:channel\nactivations: e3m2:tensor\n",
  };
  for (const char* text : recipes) {
    CAPTURE(std::string(text));
    const Recipe recipe = recipe_of(text);
    for (const bool both : {false, true}) {
      CAPTURE(both);
      Reader<torch::nn::LSTM, torch::nn::LSTMOptions> lstm(both);
      check_training(lstm, recipe);
      Reader<torch::nn::GRU, torch::nn::GRUOptions> gru(both);
      check_training(gru, recipe);
    }
    Reader<torch::nn::RNN, torch::nn::RNNOptions> rnn(true);
    check_training(rnn, recipe);
  }
  Reader<torch::nn::LSTM, torch::nn::LSTMOptions> plain(true, false);
  check_training(plain, recipe_of(recipes[0]));
}

TEST_CASE(
    "qat recurrent: what a cell multiplies has the recipe's spec, sums and states have eight bits, a part "
    "one scale") {
  torch::manual_seed(5);
  Reader<torch::nn::LSTM, torch::nn::LSTMOptions> reader(true);
  reader.eval();
  const Recipe recipe = recipe_of(
      "weights: int4:channel\nactivations: uint3:tensor\nrules: [{match: {name: \"*.state\"}, activations: "
      "int5:tensor}]\n");
  const Graph graph = crumb::graph::prepare(
      crumb::graph::unroll_recurrent(crumb::libtorch::capture(reader, {torch::randn({2, kSteps, kInputs})})),
      recipe);
  const auto plan = crumb::graph::plan_quantizers(graph, recipe);
  const crumb::graph::Links links(graph);
  std::map<std::string, std::set<std::size_t>> groups;
  std::map<std::string, std::set<std::string>> specs;
  for (const auto& edge : plan.edges) {
    const std::size_t producer = links.producer(edge.value);
    if (producer == crumb::graph::Links::kNone) continue;
    const auto part = crumb::graph::cell_part(graph.nodes[producer]);
    if (!part) continue;
    groups[part->cell + "/" + part->part].insert(edge.scale_group);
    specs[part->part].insert(edge.spec.to_string());
  }
  for (const auto& [part, numbers] : groups) {
    CAPTURE(part);
    CHECK(numbers.size() == 1);
  }
  using Names = std::set<std::string>;
  CHECK(specs.at("gate_i") == Names{"uint3:tensor"});
  CHECK(specs.at("gate_g") == Names{"int3:tensor"});
  CHECK(specs.at("squashed") == Names{"int3:tensor"});
  CHECK(specs.at("hidden") == Names{"int3:tensor"});
  CHECK(specs.at("sum") == Names{"int8:tensor"});
  CHECK(specs.at("state") == Names{"int5:tensor"});
}

TEST_CASE("qat recurrent: hooks freeze to cells with the codes that were trained") {
  torch::manual_seed(6);
  Reader<torch::nn::LSTM, torch::nn::LSTMOptions> reader(true);
  const at::Tensor x = torch::randn({4, kSteps, kInputs});
  auto hooks = crumb::qat::attach(reader, recipe_of("weights: int4:channel\n"));
  at::Tensor expected;
  {
    const auto step = hooks.step();
    expected = reader.forward(x).detach();
  }
  reader.eval();
  const Graph frozen = crumb::qat::freeze(hooks, reader, {x});
  CHECK(frozen.quantized.size() == 5);
  CHECK(frozen.quantized.contains("layer.weight_hh_l0_reverse"));
  const torch::NoGradGuard no_gradients;
  crumb::libtorch::GraphModule module(frozen);
  CHECK(at::allclose(module.run({crumb::libtorch::typed(x)})[0].tensor, expected, 1e-4, 1e-5));
}

}  // namespace

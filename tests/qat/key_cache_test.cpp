// A decoder's layer that trains with a cache of codes: training sees the numbers that the frozen graph keeps.
#include <doctest/doctest.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/adamw.h>
#include <torch/serialize.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <sstream>

#include "libtorch/execute/graph_module.h"
#include "qat/network.h"
#include "tests/graph/node_builder.h"
#include "tests/qat/networks.h"

namespace {

using crumb::graph::Graph;
using crumb::graph::Tensor;
using crumb::qat::Network;
using crumb::testing::recipe_of;

constexpr std::int64_t kPlaces = 6, kPast = 3, kHeads = 2, kSize = 12, kWidth = kHeads * kSize, kClasses = 5;

/// Attention over a past between linear layers; outputs: logits of each place, keys and values.
Graph layer() {
  crumb::graph::NodeBuilder made;
  made.graph.opsets[""] = 24;
  const auto matrix = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
    return made.constant(name, crumb::libtorch::to_constant(crumb::libtorch::typed(
                                   torch::randn({rows, columns}) / std::sqrt(static_cast<double>(rows)))));
  };
  const std::string x = made.input("x", {1, kPlaces, kWidth});
  const std::string past_key = made.input("past_key", {1, kHeads, kPast, kSize});
  const std::string past_value = made.input("past_value", {1, kHeads, kPast, kSize});
  std::vector<std::string> inputs;
  for (const char* name : {"q_proj", "k_proj", "v_proj"})
    inputs.push_back(made.node("MatMul", {x, matrix(std::string(name) + ".weight", kWidth, kWidth)}));
  inputs.insert(inputs.end(), {"", past_key, past_value});
  made.node("Attention", inputs, {{"q_num_heads", kHeads}, {"kv_num_heads", kHeads}});
  crumb::graph::Node& attention = made.graph.nodes.back();
  attention.outputs = {"attended", "key", "value"};
  const std::string logits = made.node("MatMul", {"attended", matrix("o_proj.weight", kWidth, kClasses)});
  for (crumb::graph::Node& node : made.graph.nodes) node.version = 24;
  made.graph.outputs = {logits, "key", "value"};
  return made.graph;
}

struct Samples {
  std::vector<at::Tensor> inputs{torch::randn({1, kPlaces, kWidth}), torch::randn({1, kHeads, kPast, kSize}),
                                 torch::randn({1, kHeads, kPast, kSize})};
  at::Tensor classes = torch::randint(kClasses, {kPlaces}, at::kLong);
};

double train(Network& network, const Samples& samples, int steps) {
  torch::optim::AdamW optimizer(network.parameter_groups({.learning_rate = 1e-2}));
  double last = 0;
  network.train();
  for (int step = 0; step < steps; ++step) {
    const at::Tensor loss =
        torch::nn::functional::cross_entropy(network.forward(samples.inputs)[0][0], samples.classes);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
  }
  return last;
}

std::vector<at::Tensor> run(const Graph& graph, const std::vector<at::Tensor>& inputs) {
  std::vector<crumb::libtorch::TypedTensor> typed;
  for (const at::Tensor& input : inputs) typed.push_back(crumb::libtorch::typed(input));
  const torch::NoGradGuard no_gradients;
  std::vector<at::Tensor> found;
  for (const auto& output : crumb::libtorch::GraphModule(graph).run(typed)) found.push_back(output.tensor);
  return found;
}

/// Heads as a rotated cache keeps them, and the other way round: pieces of four numbers times the Hadamard matrix.
at::Tensor rotated(const at::Tensor& heads) {
  const at::Tensor matrix =
      torch::tensor({{1, 1, 1, 1}, {1, -1, 1, -1}, {1, 1, -1, -1}, {1, -1, -1, 1}}, at::kFloat) / 2;
  return heads.view({1, kHeads, kPast, kSize / 4, 4}).matmul(matrix).view(heads.sizes());
}

/// The inputs of the same network without a rotated cache.
std::vector<at::Tensor> without_rotation(const Samples& samples, const std::string& cache) {
  if (cache.find("rotate") == std::string::npos) return samples.inputs;
  return {samples.inputs[0], rotated(samples.inputs[1]), rotated(samples.inputs[2])};
}

/// How far the places of this run are from whole codes, each group's largest being `most`.
double off_grid(const at::Tensor& kept, std::int64_t group, double most) {
  const at::Tensor now = kept.slice(2, kPast).contiguous().view({-1, group}).to(at::kDouble);
  const at::Tensor codes = now / std::get<0>(now.abs().max(1, true)) * most;
  return (codes - codes.round()).abs().max().item<double>();
}

TEST_CASE(
    "qat network: keys and values that are kept as codes, rotated or not, are those of the frozen graph") {
  torch::manual_seed(5);
  const std::tuple<const char*, std::int64_t, double> caches[] = {
      {"int8", kSize, 127}, {"int4:group=4", 4, 7}, {"int4:rotate", kSize, 7}, {"int3:group=6:rotate", 6, 3}};
  for (const auto& [cache, group, most] : caches) {
    CAPTURE(cache);
    const Graph graph = layer();
    const Samples samples;
    Network network(graph, recipe_of(std::string("weights: int8:channel\nkv_cache: ") + cache + "\n"));
    for (const auto& parameter : network.named_parameters())
      CHECK(parameter.key().find("hadamard") == std::string::npos);
    network.calibrate({});
    const double before = train(network, samples, 1), after = train(network, samples, 40);
    CHECK(after < 0.5 * before);
    network.eval();
    const torch::NoGradGuard no_gradients;
    const std::vector<at::Tensor> expected = network.forward(samples.inputs);
    for (const std::size_t kept : {1, 2}) CHECK(off_grid(expected[kept], group, most) < 1e-4);
    const std::vector<at::Tensor> found = run(network.freeze(), samples.inputs);
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(at::equal(found[i], expected[i]));

    // Without quantizers it is the float network.
    network.set_active({.weights = false, .activations = false});
    const std::vector<at::Tensor> floats = network.forward_float(samples.inputs);
    const std::vector<at::Tensor> passed = network.forward(samples.inputs);
    CHECK(at::allclose(floats[0], passed[0], 0, 0));
    Graph plain = graph;
    for (auto& [name, constant] : plain.initializers) {
      for (const auto& parameter : network.named_parameters())
        if (parameter.key() == name)
          constant = crumb::libtorch::to_constant(crumb::libtorch::typed(parameter.value().detach()));
    }
    CHECK(at::allclose(run(plain, without_rotation(samples, cache))[0], floats[0], 1e-4, 1e-4));
    CHECK_FALSE(at::allclose(expected[0], floats[0], 1e-4, 1e-4));
  }
}

TEST_CASE("qat network: gradients pass through the codes of a cache") {
  torch::manual_seed(6);
  const Samples samples;
  const Graph graph = layer();
  std::vector<at::Tensor> gradients;
  for (const char* cache : {"keep", "int8", "int8:rotate"}) {
    Network network(graph, recipe_of(std::string("weights: keep\nkv_cache: ") + cache + "\n"));
    network.calibrate({});
    network.train();
    const at::Tensor logits = network.forward(without_rotation(samples, cache))[0][0];
    torch::nn::functional::cross_entropy(logits, samples.classes).backward();
    gradients.push_back(network.named_parameters()["k_proj.weight"].grad());
  }
  const double size = gradients[0].norm().item<double>();
  for (const std::size_t i : {1, 2}) {
    const double off = (gradients[i] - gradients[0]).norm().item<double>() / size;
    CHECK(off > 0);
    CHECK(off < 0.1);
  }
}

}  // namespace

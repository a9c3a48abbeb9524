// Graphs that are only executed: what follows from constants is computed once, memory is written over where nobody
// holds it; and graphs that train, where neither may happen.
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include "tests/support/torch_doctest.h"
//
#include <set>
#include <string>
#include <vector>

#include "libtorch/execute/graph_module.h"

using crumb::graph::Graph;
using crumb::graph::Node;
using crumb::graph::Tensor;
using crumb::libtorch::GraphModule;
using crumb::libtorch::typed;
using crumb::libtorch::TypedTensor;

namespace {

Node quantizer(const std::string& in, const std::string& out) {
  Node node{.name = out, .op = "Quant", .domain = std::string(crumb::graph::kQonnxDomain)};
  node.inputs = {in, "scale", "zero", "bits"};
  node.outputs = {out};
  return node;
}

Node node_of(const std::string& op, std::vector<std::string> inputs, const std::string& out) {
  return {.name = out, .op = op, .domain = "", .version = 13, .inputs = std::move(inputs), .outputs = {out}};
}

/// y = Quant(Relu(Conv(x, Quant(w)) + shift)), the sum reshaped to x's shape by way of Shape; shift of a Constant node.
Graph network() {
  Graph graph;
  graph.inputs = {"x"};
  graph.outputs = {"y"};
  graph.opsets[""] = 13;
  graph.values["x"] = {crumb::graph::ElementType::kFloat, crumb::graph::Shape{1, 2, 30, 30}, {}};
  const at::Tensor w = torch::arange(36, at::kFloat).mul(1.7).cos().reshape({2, 2, 3, 3});
  graph.initializers["w"] = crumb::libtorch::to_constant(typed(w));
  graph.initializers["scale"] = Tensor::scalar(0.25F);
  graph.initializers["zero"] = Tensor::scalar(0.0F);
  graph.initializers["bits"] = Tensor::scalar(4.0F);
  Node convolution = node_of("Conv", {"x", "wq"}, "sums");
  convolution.attributes["pads"] = std::vector<std::int64_t>{1, 1, 1, 1};
  Node constant = node_of("Constant", {}, "shift");
  constant.attributes["value_float"] = 0.5F;
  graph.nodes = {quantizer("w", "wq"),
                 convolution,
                 constant,
                 node_of("Add", {"sums", "shift"}, "shifted"),
                 node_of("Shape", {"x"}, "sizes"),
                 node_of("Reshape", {"shifted", "sizes"}, "shaped"),
                 node_of("Relu", {"shaped"}, "positive"),
                 quantizer("positive", "y")};
  return graph;
}

at::Tensor image() { return torch::arange(1800, at::kFloat).mul(0.37).sin().reshape({1, 2, 30, 30}); }

at::Tensor run(const GraphModule& module, const at::Tensor& x, const GraphModule::Watch& watch = {}) {
  return module.run({typed(x)}, watch).at(0).tensor;
}

}  // namespace

TEST_CASE("a frozen graph computes the same, bit by bit, with gradients and without") {
  GraphModule plain(network()), frozen(network());
  frozen.freeze();
  const at::Tensor x = image(), expected = run(plain, x).detach();
  CHECK(std::get<0>(at::unique_consecutive(expected)).numel() > 10);
  for (const bool gradients : {true, false}) {
    const at::AutoGradMode mode(gradients);
    CHECK(at::equal(run(frozen, x).contiguous(), expected));
    CHECK(at::equal(run(plain, x).contiguous(), expected));
    CHECK(at::equal(x, image()));  // what the caller holds is not written over
  }
}

TEST_CASE("memory that is not LibTorch's own is not written over") {
  Graph graph = network();
  graph.nodes = {node_of("Relu", {"x"}, "positive"), quantizer("positive", "y")};
  const GraphModule module(graph);
  const torch::NoGradGuard no_gradients;
  const std::vector<float> lent(1800, -3.0F);
  auto* data = const_cast<float*>(lent.data());
  std::vector<TypedTensor> inputs;
  inputs.push_back(typed(torch::from_blob(data, {1, 2, 30, 30}, at::kFloat)));
  const at::Tensor y = module.run(std::move(inputs)).at(0).tensor;
  CHECK(y.abs().max().item<float>() == 0.0F);
  CHECK(lent == std::vector<float>(1800, -3.0F));
}

TEST_CASE("a value with two consumers, and one that is an output too, is not written over") {
  Graph graph;
  graph.inputs = {"x"};
  graph.outputs = {"doubled", "positive", "sum"};
  graph.opsets[""] = 13;
  graph.nodes = {node_of("Add", {"x", "x"}, "doubled"), node_of("Relu", {"doubled"}, "positive"),
                 node_of("Add", {"doubled", "positive"}, "sum")};
  GraphModule module(graph);
  module.freeze();
  const torch::NoGradGuard no_gradients;
  const at::Tensor x = image();
  const auto outputs = module.run({typed(x)});
  CHECK(at::equal(outputs[0].tensor, x + x));
  CHECK(at::equal(outputs[1].tensor, at::relu(x + x)));
  CHECK(at::equal(outputs[2].tensor, x + x + at::relu(x + x)));
}

TEST_CASE("a watch sees every value of a frozen graph, and may replace one") {
  GraphModule module(network());
  module.freeze();
  const torch::NoGradGuard no_gradients;
  std::set<std::string> seen;
  run(module, image(), [&](const std::string& value, TypedTensor made) {
    seen.insert(value);
    return made;
  });
  CHECK(seen == std::set<std::string>{"wq", "sums", "shift", "shifted", "sizes", "shaped", "positive", "y"});
  const at::Tensor none = run(module, image(), [](const std::string& value, TypedTensor made) {
    if (value == "wq") made.tensor = at::zeros_like(made.tensor);
    return made;
  });
  CHECK(at::equal(none, at::full_like(none, 0.5)));
}

TEST_CASE("a graph that is not frozen trains: runs without gradients between steps keep nothing") {
  GraphModule module(network());
  const at::Tensor x = image();
  const auto weight = [&] { return module.named_parameters()["w"]; };
  torch::optim::SGD optimizer(module.parameters(), torch::optim::SGDOptions(0.01));
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = run(module, x).square().mean();
    loss.backward();
    CHECK(weight().grad().abs().max().item<double>() > 0);
    const at::Tensor before = weight().detach().clone();
    optimizer.step();
    CHECK(!at::equal(weight(), before));
    const torch::NoGradGuard no_gradients;
    const GraphModule fresh(network());
    fresh.named_parameters()["w"].copy_(weight());
    CHECK(at::equal(run(module, x).contiguous(), run(fresh, x).contiguous()));
  }
}

TEST_CASE("freezing again sees the parameters of then") {
  GraphModule module(network());
  module.freeze();
  const torch::NoGradGuard no_gradients;
  const at::Tensor before = run(module, image()).clone();
  module.named_parameters()["w"].neg_();
  CHECK(at::equal(run(module, image()), before));
  module.freeze();
  const at::Tensor after = run(module, image());
  CHECK(!at::equal(after, before));
  CHECK(at::equal(after.contiguous(), run(module, image(), [](const std::string&, TypedTensor made) {
                                        return made;
                                      }).contiguous()));
}

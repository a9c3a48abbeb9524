// Captured networks, quantized everywhere by powers of two: in wide registers they compute every bit that they compute
// in floats.
#include "libtorch/execute/simulate_accumulators.h"

#include <set>
#include <string>

#include "graph/edit.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/qonnx/quantizer_nodes.h"
#include "libtorch/capture/capture.h"
#include "libtorch/engine.h"
#include "tests/libtorch/capture/networks.h"

namespace {

using crumb::OverflowMode;
using crumb::analysis::AccumulatorSimulation;
using crumb::graph::Graph;
using crumb::graph::Node;
using crumb::graph::Tensor;

constexpr float kInput = 0.25F, kWeight = 0.0625F;

/// A Quant before a node's input.
void quantize(Graph& graph, std::vector<Node>& nodes, Node& node, std::size_t i, float scale, float bits) {
  const auto number = [&](const char* requested, float value) {
    return add_constant(graph, requested, Tensor::scalar(value));
  };
  Node quant = crumb::graph::quant_node(
      {node.inputs[i], number("scale", scale), number("zero", 0), number("bits", bits)}, true, false);
  quant.name = "quant" + std::to_string(nodes.size());
  quant.outputs = {graph.unused_value_name("quantized" + std::to_string(nodes.size()))};
  graph.values[quant.outputs[0]] = {.type = crumb::graph::ElementType::kFloat};
  node.inputs[i] = quant.outputs[0];
  nodes.push_back(std::move(quant));
}

/// The inputs, weights and biases of every layer.
Graph quantized(Graph graph) {
  std::vector<Node> nodes;
  for (Node node : std::vector<Node>(graph.nodes)) {
    const bool product = (node.is("Conv") || node.is("Gemm") || node.is("MatMul")) &&
                         graph.constant(node.inputs[1]) != nullptr;
    if (product) {
      quantize(graph, nodes, node, 0, kInput, 5);
      quantize(graph, nodes, node, 1, kWeight, 4);
      if (node.has_input(2)) quantize(graph, nodes, node, 2, kInput * kWeight, 16);
    }
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
  return crumb::graph::infer_shapes(std::move(graph));
}

template <class Network>
Graph captured(Network& network, const at::Tensor& x) {
  return quantized(crumb::libtorch::capture(network, {x}));
}

Tensor constant(const at::Tensor& x) { return crumb::libtorch::to_constant(crumb::libtorch::typed(x)); }

void check_network(const Graph& graph, const at::Tensor& x, std::size_t layers) {
  const auto& engine = crumb::libtorch::engine();
  const auto& registers = crumb::libtorch::register_engine();
  const Tensor expected = engine.prepare(graph)->run({constant(x)})[0];
  for (const auto mode : {OverflowMode::kCheck, OverflowMode::kWrap, OverflowMode::kSaturate}) {
    const AccumulatorSimulation simulation = crumb::analysis::simulate_accumulators(graph, 32, mode);
    CHECK(simulation.products.size() == layers);
    CHECK(simulation.skipped.empty());
    const auto executable = registers.prepare(graph, simulation);
    CHECK(executable->run({constant(x)})[0] == expected);
    std::set<std::string> seen;  // watched, every node runs
    crumb::graph::Watch watch{.show = [&](const std::string& value, const Tensor&) { seen.insert(value); }};
    CHECK(executable->run({constant(x)}, watch)[0] == expected);
    CHECK(seen.size() >= graph.nodes.size());
    const std::set<std::string> wanted{*seen.begin(), *seen.rbegin()};
    watch.wanted = wanted;
    seen.clear();
    CHECK(executable->run({constant(x)}, watch)[0] == expected);
    CHECK(seen == wanted);
    for (const auto& product : simulation.products) {
      CHECK(product.layer->report().results > 0);
      CHECK(product.layer->report().overflowed == 0);
    }
  }
  const AccumulatorSimulation narrow = crumb::analysis::simulate_accumulators(graph, 5, OverflowMode::kWrap);
  CHECK(!(registers.prepare(graph, narrow)->run({constant(x)})[0] == expected));
  const AccumulatorSimulation checked =
      crumb::analysis::simulate_accumulators(graph, 5, OverflowMode::kCheck);
  CHECK_THROWS_WITH_AS(registers.prepare(graph, checked)->run({constant(x)}),
                       doctest::Contains("output channel"), crumb::Error);
}

}  // namespace

TEST_CASE("a captured residual network in registers") {
  torch::manual_seed(5);
  crumb::testing::Cnn network;
  network.eval();
  const at::Tensor x = torch::randn({3, 3, 12, 12});
  check_network(captured(network, x), x, 7);
}

TEST_CASE("a captured MLP in registers") {
  torch::manual_seed(6);
  torch::nn::Sequential network = crumb::testing::mlp();
  network->eval();
  const at::Tensor x = torch::randn({9, 6});
  check_network(captured(*network, x), x, 3);
}

TEST_CASE("sums past 2^24 are exact, and rounded once") {
  Graph graph;
  graph.inputs = {"x"};
  graph.outputs = {"y"};
  graph.opsets[""] = 13;
  graph.opsets[std::string(crumb::graph::kQonnxDomain)] = 1;
  graph.values["x"] = {crumb::graph::ElementType::kFloat, crumb::graph::Shape{1, 3}, {}};
  graph.values["y"] = {.type = crumb::graph::ElementType::kFloat};
  graph.initializers["w"] = Tensor::floats({3, 1}, std::vector<float>{127, 127, -127});
  std::vector<Node> nodes;
  Node product{.name = "fc", .op = "MatMul", .version = 13, .inputs = {"x", "w"}, .outputs = {"y"}};
  quantize(graph, nodes, product, 0, 1, 24);
  quantize(graph, nodes, product, 1, 1, 8);
  nodes.push_back(product);
  graph.nodes = nodes;
  const Tensor x = Tensor::floats({1, 3}, std::vector<float>{8388607, 3, 8388605});
  const AccumulatorSimulation simulation =
      crumb::analysis::simulate_accumulators(graph, 40, OverflowMode::kCheck);
  CHECK(crumb::libtorch::register_engine().prepare(graph, simulation)->run({x})[0].to_floats() ==
        std::vector<float>{127 * 5});
}

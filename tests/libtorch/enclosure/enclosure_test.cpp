// The bounds that tests compare with: every order of summation lies within them, a wrong code or a wrong weight does not,
// and places at a boundary are counted.
#include "tests/support/enclosure.h"

#include <torch/utils.h>

#include "tests/support/torch_doctest.h"
//
#include <string>

#include "libtorch/execute/graph_module.h"

using crumb::graph::Graph;
using crumb::graph::Node;
using crumb::graph::Tensor;
using crumb::libtorch::to_constant;
using crumb::libtorch::typed;
using crumb::testing::enclose;
using crumb::testing::not_computed_by;

namespace {

Node node_of(const char* op, std::vector<std::string> inputs, const std::string& out) {
  return {.name = out, .op = op, .domain = "", .version = 13, .inputs = std::move(inputs), .outputs = {out}};
}

Node quantizer(const std::string& in, const std::string& out) {
  Node node{.name = out, .op = "Quant", .domain = std::string(crumb::graph::kQonnxDomain)};
  node.inputs = {in, "scale", "zero", "bits"};
  node.outputs = {out};
  return node;
}

/// y = Quant(tanh(x v)) w.
struct Case {
  at::Tensor x, v, w;
  float scale = 0.1F;

  Graph graph() const {
    Graph made;
    made.inputs = {"x"};
    made.outputs = {"y"};
    made.opsets[""] = 13;
    made.initializers["v"] = to_constant(typed(v));
    made.initializers["w"] = to_constant(typed(w));
    made.initializers["scale"] = Tensor::scalar(scale);
    made.initializers["zero"] = Tensor::scalar(0.0F);
    made.initializers["bits"] = Tensor::scalar(4.0F);
    made.nodes = {node_of("MatMul", {"x", "v"}, "sums"), node_of("Tanh", {"sums"}, "squashed"),
                  quantizer("squashed", "codes"), node_of("MatMul", {"codes", "w"}, "y")};
    return made;
  }
  /// Terms in this order; `off`: codes that are one more.
  at::Tensor run(const at::Tensor& order, const at::Tensor& other, std::int64_t off = 0) const {
    const at::Tensor squashed = (x.index_select(1, order).matmul(v.index_select(0, order))).tanh();
    at::Tensor codes = (squashed / scale).round().clamp(-8, 7);
    codes.view({-1}).slice(0, 0, off).add_(1);
    return (codes * scale).index_select(1, other).matmul(w.index_select(0, other));
  }
};

Case random_case() { return {torch::randn({9, 41}), torch::randn({41, 30}) * 0.1, torch::randn({30, 5})}; }

}  // namespace

TEST_CASE("enclosure: every order of summation lies within; a wrong code, weight or number does not") {
  torch::manual_seed(1);
  std::int64_t differ = 0;
  for (int round = 0; round < 40; ++round) {
    const Case one = random_case();
    const Graph graph = one.graph();
    const at::Tensor first = one.run(torch::arange(41), torch::arange(30));
    CHECK(not_computed_by(graph, {one.x}, {first}) == "");
    for (int i = 0; i < 5; ++i) {
      const at::Tensor y = one.run(torch::randperm(41), torch::randperm(30));
      CHECK(not_computed_by(graph, {one.x}, {y}) == "");
      differ += y.ne(first).sum().item<std::int64_t>();
    }
    CHECK(not_computed_by(graph, {one.x}, {one.run(torch::arange(41), torch::arange(30), 1)}) != "");
    CHECK(not_computed_by(graph, {one.x}, {first * (1 + 1e-4)}) != "");
    Case other = one;
    other.w = one.w.clone();
    other.w[3][2] += 1e-3;
    CHECK(not_computed_by(other.graph(), {one.x}, {first}) != "");
  }
  CHECK(differ > 500);  // orders do give other floats
}

TEST_CASE("enclosure: bounds are no wider than they must be") {
  torch::manual_seed(2);
  const Case one = random_case();
  const auto bounds = enclose(one.graph(), {one.x});
  CHECK(bounds.quantized == 9 * 30);
  CHECK(bounds.near == 0);
  // gamma_33 times the sum of the terms' sizes on either side, and one unit in the last place.
  const at::Tensor codes = ((one.x.matmul(one.v)).tanh() / one.scale).round().clamp(-8, 7) * one.scale;
  const at::Tensor most = codes.abs().matmul(one.w.abs()) * (2 * 34 * 0x1p-24) + 1e-6;
  CHECK((bounds.high[0] - bounds.low[0]).lt(most).all().item<bool>());
}

TEST_CASE("enclosure: sums of whole numbers are exact, and ties are no boundary to them") {
  torch::manual_seed(3);
  Case one{torch::randint(-8, 8, {20, 41}).to(at::kFloat), torch::randint(-8, 8, {41, 30}).to(at::kFloat),
           torch::randint(-8, 8, {30, 5}).to(at::kFloat), 2.0F};
  Graph graph = one.graph();
  graph.nodes[1].op = "Relu";
  const auto bounds = enclose(graph, {one.x});
  CHECK(bounds.near == 0);
  CHECK(at::equal(bounds.low[0], bounds.high[0]));
  crumb::libtorch::GraphModule module(graph);
  CHECK(at::equal(module.run({typed(one.x)})[0].tensor, bounds.low[0]));
}

TEST_CASE("enclosure: a value at a boundary is counted, and either code is taken") {
  torch::manual_seed(4);
  Case one = random_case();
  one.x = one.x.slice(0, 0, 1).clone();
  Graph graph = one.graph();
  graph.nodes[1].op = "Identity";
  // A scale that puts the first sum at half a step.
  one.scale = (one.x.matmul(one.v)[0][0].abs() / 2.5).item<float>();
  graph.initializers["scale"] = Tensor::scalar(one.scale);
  const auto bounds = enclose(graph, {one.x});
  CHECK(bounds.near == 1);
  const at::Tensor codes = (one.x.matmul(one.v) / one.scale).round().clamp(-8, 7);
  for (const double first : {2.0, 3.0}) {
    at::Tensor taken = codes.clone();
    taken[0][0] = codes[0][0].item<double>() < 0 ? -first : first;
    const at::Tensor y = (taken * one.scale).matmul(one.w);
    CHECK(y.ge(bounds.low[0]).logical_and(y.le(bounds.high[0])).all().item<bool>());
  }
  // Where all values are at boundaries, nothing can be said.
  graph.initializers["v"] = to_constant(typed(one.v.select(1, 0).unsqueeze(1).expand({41, 30}).contiguous()));
  CHECK(not_computed_by(graph, {one.x}, {torch::zeros({1, 5})}).find("boundary") != std::string::npos);
}

TEST_CASE("enclosure: an operator without a rule is an error") {
  Case one = random_case();
  Graph graph = one.graph();
  graph.nodes[1].op = "Sin";
  CHECK_THROWS_WITH_AS(enclose(graph, {one.x}), doctest::Contains("Sin"), crumb::Error);
}

// Constants that stay codes while a network runs and trains: outputs and gradients are those of their decoded twins, for
// every kind of codes.
#include "libtorch/execute/packed_kernels.h"

#include <torch/utils.h>

#include <random>

#include "libtorch/execute/cut_pass.h"
#include "libtorch/execute/graph_module.h"
#include "libtorch/execute/recomputed.h"
#include "tests/graph/node_builder.h"
#include "tests/support/torch_doctest.h"

using crumb::graph::Graph;
using crumb::graph::Tensor;
using crumb::libtorch::Codes;
using crumb::libtorch::GraphModule;
using crumb::libtorch::typed;

namespace {

using Random = std::mt19937;

constexpr const char* kSpecs[] = {
    "int4:channel",     "int2h:group=8:pad",      "int3:tensor",     "ternary:group=4:pad:search=mse",
    "e2m1:group=8:pad", "uint8:channel:zero=int", "nf4:group=8:pad", "int8:tensor"};

Tensor drawn(std::int64_t rows, std::int64_t columns) {
  return crumb::libtorch::to_constant(typed(torch::randn({rows, columns})));
}

struct Network {
  crumb::graph::NodeBuilder made;

  std::string codes(const std::string& name, const Tensor& values, std::size_t axis, Random& random) {
    made.graph.quantized[name] = crumb::graph::quantize_constant(
        crumb::QuantSpec::parse(kSpecs[random() % std::size(kSpecs)]), values, axis, name);
    made.graph.values[name] = crumb::graph::value_of(values);
    return name;
  }
};

/// Rows of a table, products by two matrices with a norm's gain between, and the table once more.
Graph network(std::int64_t width, std::int64_t inner, std::int64_t words, Random& random) {
  Network network;
  crumb::graph::NodeBuilder& made = network.made;
  made.graph.inputs = {"ids"};
  made.graph.values["ids"] = {crumb::graph::ElementType::kInt64, crumb::graph::Shape{2, 3}, {}};
  const std::string table = network.codes("table.weight", drawn(words, width), 0, random);
  std::string x = made.node("Gather", {table, "ids"});
  x = made.node("Mul",
                {x, made.constant("gain", crumb::libtorch::to_constant(typed(torch::randn({width}))))});
  x = made.node("MatMul", {x, network.codes("up.weight", drawn(width, inner), 1, random)});
  x = made.node("Tanh", {x});
  x = made.node("MatMul", {x, network.codes("down.weight", drawn(inner, width), random() % 2, random)});
  x = made.node("Add",
                {x, made.constant("bias", crumb::libtorch::to_constant(typed(torch::randn({width}))))});
  x = made.node("Reshape",
                {x, made.constant("rows", Tensor::ints({2}, std::vector<std::int64_t>{-1, width}))});
  made.graph.outputs = {made.node("Gemm", {x, table}, {{"transB", std::int64_t{1}}})};
  return made.graph;
}

struct Found {
  at::Tensor output;
  std::map<std::string, at::Tensor> gradients;
};

Found found(GraphModule& module, const at::Tensor& ids, const at::Tensor& aims) {
  Found found;
  found.output = module.run({typed(ids)}).at(0).tensor;
  (found.output * aims).sum().backward();
  for (const auto& parameter : module.named_parameters())
    if (parameter.key() == "gain" || parameter.key() == "bias")
      found.gradients[parameter.key()] = parameter.value().grad();
  return found;
}

}  // namespace

TEST_CASE("codes that are kept: outputs and gradients of the decoded network") {
  torch::manual_seed(1);
  Random random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const auto width = static_cast<std::int64_t>(1 + random() % 20),
               inner = static_cast<std::int64_t>(1 + random() % 20),
               words = static_cast<std::int64_t>(2 + random() % 20);
    const Graph graph = network(width, inner, words, random);
    REQUIRE(crumb::libtorch::packed_constants(graph).size() == 3);
    GraphModule kept(graph, {.codes = Codes::kKept}), decoded(graph);
    CHECK(kept.parameters().size() == 2);
    CHECK(decoded.parameters().size() == 5);
    const at::Tensor ids = torch::randint(words, {2, 3}, at::kLong), aims = torch::randn({6, words});
    const Found one = found(kept, ids, aims), other = found(decoded, ids, aims);
    CHECK(at::allclose(one.output, other.output, 1e-5, 1e-5));
    REQUIRE(one.gradients.size() == 2);
    for (const auto& [name, gradient] : one.gradients)
      CHECK(at::allclose(gradient, other.gradients.at(name), 1e-4, 1e-4));
  }
}

TEST_CASE("codes that are kept: what cannot take them decodes, and bad indices are named") {
  Random random(2);
  Network made;
  made.made.input("x", {2, 4});
  const std::string matrix = made.codes("w.weight", drawn(4, 4), 1, random);
  const std::string product = made.made.node("MatMul", {"x", matrix});
  made.made.graph.outputs = {made.made.node("Add", {product, matrix})};
  made.made.graph.values["x"].shape = crumb::graph::Shape{4, 4};
  CHECK(crumb::libtorch::packed_constants(made.made.graph).empty());
  const GraphModule module(made.made.graph, {.codes = Codes::kKept});
  CHECK(module.parameters().size() == 1);
  const at::Tensor x = torch::randn({4, 4}), w = module.parameters()[0];
  CHECK(at::allclose(module.run({typed(x)}).at(0).tensor, at::matmul(x, w) + w, 1e-5, 1e-5));

  const Graph graph = network(4, 4, 5, random);
  const GraphModule rows(graph, {.codes = Codes::kKept});
  CHECK_THROWS_WITH_AS(rows.run({typed(at::full({2, 3}, 5, at::kLong))}),
                       doctest::Contains("index 5 is none of 5 rows"), crumb::Error);
  CHECK_NOTHROW(rows.run({typed(at::full({2, 3}, -5, at::kLong))}));
}

TEST_CASE("a large matrix is decoded some rows at a time") {
  torch::manual_seed(3);
  Random random(3);
  constexpr std::int64_t kWidth = 4096, kOut = 2500;  // 10 million weights
  Network made;
  made.made.input("x", {3, kWidth});
  made.made.graph.outputs = {
      made.made.node("MatMul", {"x", made.codes("w.weight", drawn(kWidth, kOut), 1, random)})};
  const GraphModule kept(made.made.graph, {.codes = Codes::kKept}), decoded(made.made.graph);
  at::Tensor x = torch::randn({3, kWidth}).requires_grad_(), y = x.detach().clone().requires_grad_();
  const at::Tensor one = kept.run({typed(x)}).at(0).tensor, other = decoded.run({typed(y)}).at(0).tensor;
  CHECK(at::allclose(one, other, 1e-4, 1e-3));
  const at::Tensor aims = torch::randn({3, kOut});
  (one * aims).sum().backward();
  (other * aims).sum().backward();
  CHECK(at::allclose(x.grad(), y.grad(), 1e-4, 1e-3));
}

namespace {

/// Layers x + tanh(x W) W2 with values that cross them, and a head.
Graph layered(std::int64_t width, std::size_t layers) {
  crumb::graph::NodeBuilder made;
  std::string x = made.input("x", {2, 3, width});
  const std::string crossing = made.node("Sigmoid", {x});
  const auto matrix = [&](const std::string& name) { return made.constant(name, drawn(width, width)); };
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string layer = "layer" + std::to_string(i);
    const std::string inner = made.node("Tanh", {made.node("MatMul", {x, matrix(layer + ".a")})});
    const std::string product =
        made.node("Mul", {made.node("MatMul", {inner, matrix(layer + ".b")}), crossing});
    made.graph.nodes.push_back(
        {.name = layer, .op = "Add", .version = 13, .inputs = {x, product}, .outputs = {layer}});
    x = layer;
  }
  made.graph.outputs = {made.node("MatMul", {made.node("Tanh", {x}), matrix("head")})};
  return made.graph;
}

std::vector<std::string> layer_names(std::size_t layers) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < layers; ++i) names.push_back("layer" + std::to_string(i));
  return names;
}

}  // namespace

TEST_CASE("layers that are computed again: the same bits, outputs and gradients") {
  torch::manual_seed(4);
  for (const std::size_t layers : {1, 2, 5}) {
    const Graph graph = layered(7, layers);
    GraphModule plain(graph), again(graph);
    again.recompute_between(layer_names(layers));
    const at::Tensor x = torch::randn({2, 3, 7}), aims = torch::randn({2, 3, 7});
    const at::Tensor one = plain.run({typed(x)}).at(0).tensor, other = again.run({typed(x)}).at(0).tensor;
    CHECK(one.equal(other));
    (one * aims).sum().backward();
    (other * aims).sum().backward();
    const auto meant = plain.named_parameters();
    for (const auto& parameter : again.named_parameters())
      CHECK(parameter.value().grad().equal(meant[parameter.key()].grad()));
  }
}

TEST_CASE("a network that is cut: rows behind the cut give the gradients of all of it") {
  torch::manual_seed(5);
  Random random(5);
  for (int trial = 0; trial < 40; ++trial) {
    const std::size_t layers = 1 + random() % 4;
    const Graph graph = layered(6, layers);
    GraphModule plain(graph), parts(graph);
    const auto names = layer_names(layers);
    const crumb::libtorch::CutNetwork cut(parts, names.back(),
                                          trial % 2 ? names : std::vector<std::string>{});
    const at::Tensor x = torch::randn({2, 3, 6}), aims = torch::randn({2, 3, 6});
    // The head's matrix follows from a parameter, as one with a quantizer does.
    at::Tensor root = torch::randn({6, 6}).requires_grad_(), twin = root.detach().clone().requires_grad_();
    const at::Tensor whole = plain.run({typed(x)}, {}, {{"head", typed(root * 2)}}).at(0).tensor;
    (whole * aims).sum().backward();

    crumb::libtorch::CutPass pass(cut, {typed(x)}, {{"head", typed(twin * 2)}});
    for (std::int64_t place = 0; place < 6; ++place) {
      const at::Tensor rows = pass.states().flatten(0, 1).narrow(0, place, 1).unsqueeze(0);
      const at::Tensor made = pass.behind(rows);
      CHECK(at::allclose(made.flatten(), whole.flatten(0, 1)[place], 1e-5, 1e-6));
      (made.flatten() * aims.flatten(0, 1)[place]).sum().backward();
    }
    pass.backward();
    CHECK(at::allclose(twin.grad(), root.grad(), 1e-4, 1e-5));
    const auto meant = plain.named_parameters();
    for (const auto& parameter : parts.named_parameters()) {
      if (parameter.key() == "head") continue;
      CHECK(at::allclose(parameter.value().grad(), meant[parameter.key()].grad(), 1e-4, 1e-5));
    }
  }
  const Graph graph = layered(6, 2);
  const GraphModule module(graph);
  CHECK_THROWS_WITH_AS(crumb::libtorch::CutNetwork(module, "nowhere"), doctest::Contains("'nowhere'"),
                       crumb::Error);
  CHECK_THROWS_WITH_AS(crumb::libtorch::CutNetwork(module, graph.nodes[2].outputs[0]),
                       doctest::Contains("takes the input 'x'"), crumb::Error);
}

// Few numbers beside a product: what is put into a graph comes out again, is computed by both ways to the same bits, and nothing
// else is taken for it.
#include "graph/sparse_products.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "runtime/engine.h"
#include "tests/graph/node_builder.h"

namespace {

using crumb::graph::ElementType;
using crumb::graph::Graph;
using crumb::graph::Node;
using crumb::graph::SparseMatrix;
using crumb::graph::Tensor;

Tensor drawn_matrix_of(std::mt19937& random, const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return Tensor::floats(shape, values);
}

SparseMatrix drawn_sparse(std::mt19937& random, std::int64_t rows, std::int64_t columns, std::size_t count) {
  std::set<std::int64_t> places;
  for (std::size_t i = 0; i < count; ++i)
    places.insert(static_cast<std::int64_t>(random()) % (rows * columns));
  SparseMatrix made{
      .rows = rows, .columns = columns, .places = {places.begin(), places.end()}, .numbers = {}};
  std::normal_distribution<float> normal;
  std::vector<float> numbers(places.size());
  for (float& number : numbers) {
    do number = crumb::graph::as_kept({normal(random)})[0];
    while (number == 0);
  }
  made.numbers = numbers;
  return made;
}

/// MatMul and Gemm of one matrix [in, out], a Gemm of another that lies [out, in], with what is beside them.
struct SparseNetwork {
  Graph graph;
  std::map<std::string, SparseMatrix> beside;
};

SparseNetwork sparse_network(std::mt19937& random) {
  const auto in = static_cast<std::int64_t>(1 + random() % 40),
             out = static_cast<std::int64_t>(1 + random() % 40);
  crumb::graph::NodeBuilder build;
  const std::string x = build.input("x", {5, in});
  const std::string one = build.constant("a.weight", drawn_matrix_of(random, {in, out})),
                    other = build.constant("b.weight", drawn_matrix_of(random, {out, in})),
                    bias = build.constant("b.bias", drawn_matrix_of(random, {out}));
  const std::string first = build.node("MatMul", {x, one}), second = build.node("Gemm", {x, one}),
                    third = build.node("Gemm", {x, other, bias}, {{"transB", std::int64_t{1}}});
  build.graph.outputs = {first, second, third};
  SparseNetwork made{.graph = build.graph, .beside = {}};
  std::map<std::string, std::vector<crumb::graph::LinearProduct>> products;
  for (const auto& product : crumb::graph::linear_products(made.graph))
    products[product.module].push_back(product);
  for (const auto& [module, of_module] : products) {
    made.beside[module] = drawn_sparse(random, in, out, random() % 20);
    add_sparse(made.graph, of_module, made.beside[module]);
  }
  made.graph = crumb::graph::sorted(std::move(made.graph));
  return made;
}

std::vector<Tensor> run_sparse(const Graph& graph, const std::vector<Tensor>& inputs) {
  return crumb::runtime::Engine(2).prepare(graph)->run(inputs);
}

/// The value that a product beside another multiplies by.
std::string matrix_value(const Graph& graph, const std::string& module) {
  for (const Node& node : graph.nodes)
    if (node.name.starts_with(module + ".outliers.product")) return node.inputs[1];
  return {};
}

}  // namespace

TEST_CASE("sparse products: what goes in comes out, and sums are those by the whole matrix") {
  std::mt19937 random(31);
  for (int i = 0; i < 150; ++i) {
    const SparseNetwork made = sparse_network(random);
    const crumb::graph::Links links(made.graph);
    Graph whole = made.graph;
    for (const auto& [module, sparse] : made.beside) {
      const std::string value = matrix_value(made.graph, module);
      REQUIRE(!value.empty());
      std::set<std::size_t> nodes;
      const auto found = crumb::graph::sparse_matrix(made.graph, links, value, &nodes);
      REQUIRE(found);
      CHECK(found->rows == sparse.rows);
      CHECK(found->columns == sparse.columns);
      CHECK(found->places == sparse.places);
      CHECK(found->numbers == sparse.numbers);
      CHECK(nodes.size() == 6);
      // The same network with the matrix as a constant.
      std::vector<float> floats(static_cast<std::size_t>(sparse.rows * sparse.columns));
      for (std::size_t k = 0; k < sparse.places.size(); ++k)
        floats[static_cast<std::size_t>(sparse.places[k])] = sparse.numbers[k];
      std::erase_if(whole.nodes, [&](const Node& node) { return node.outputs[0] == value; });
      whole.initializers.emplace(value, Tensor::floats({sparse.rows, sparse.columns}, floats));
    }
    const Tensor x = drawn_matrix_of(random, {5, made.beside.begin()->second.rows});
    const std::vector<Tensor> sums = run_sparse(made.graph, {x}), meant = run_sparse(whole, {x});
    // Where somebody else takes the matrix, too, it is made by the nodes.
    Graph open = made.graph;
    const std::string matrix = matrix_value(open, "a");
    open.nodes.push_back(
        {.name = "all", .op = "Gather", .version = 13, .inputs = {matrix, "zero"}, .outputs = {"row"}});
    open.initializers["zero"] = Tensor::scalar(std::int64_t{0});
    open.outputs.push_back(matrix);
    open.outputs.push_back("row");
    const std::vector<Tensor> opened = run_sparse(open, {x});
    for (std::size_t k = 0; k < sums.size(); ++k) {
      CHECK(sums[k] == meant[k]);
      CHECK(opened[k] == meant[k]);
    }
    const std::vector<float> floats = whole.initializers.at(matrix).to_floats();
    CHECK(opened[sums.size()].to_floats() == floats);
    // A Gather alone has no kernel for it, and gets it made.
    open.outputs = {"row"};
    CHECK(run_sparse(open, {x})[0].to_floats() ==
          std::vector<float>(floats.begin(), floats.begin() + opened.back().size()));
  }
}

TEST_CASE("sparse products: gaps that 16 bits do not hold") {
  std::mt19937 random(32);
  crumb::graph::NodeBuilder build;
  const std::string x = build.input("x", {1, 700});
  build.graph.outputs = {
      build.node("MatMul", {x, build.constant("a.weight", drawn_matrix_of(random, {700, 600}))})};
  SparseMatrix sparse{
      .rows = 700, .columns = 600, .places = {0, 65535, 131071, 400000, 419999}, .numbers = {}};
  sparse.numbers = {1, 2, 3, 4, 5};
  Graph graph = build.graph;
  add_sparse(graph, crumb::graph::linear_products(graph), sparse);
  graph = crumb::graph::sorted(std::move(graph));
  const auto found = crumb::graph::sparse_matrix(graph, crumb::graph::Links(graph), matrix_value(graph, "a"));
  REQUIRE(found);
  CHECK(found->places == sparse.places);
  CHECK(found->numbers == sparse.numbers);
  CHECK(graph.initializers.at("a.outliers.gaps").size() > 5);
}

TEST_CASE("sparse products: nodes that compute something else are not taken for it") {
  std::mt19937 random(33);
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    const SparseNetwork made = sparse_network(random);
    Graph graph = made.graph;
    const std::string value = matrix_value(graph, "a");
    const auto node_of = [&](std::string_view op) -> Node& {
      for (Node& node : graph.nodes)
        if (node.is(op) && node.name.starts_with("a.outliers")) return node;
      throw crumb::Error("no such node");
    };
    std::map<std::string, Tensor>& constants = graph.initializers;
    switch (random() % 12) {
      case 0: node_of("CumSum").attributes["exclusive"] = std::int64_t{1}; break;
      case 1: node_of("CumSum").attributes["reverse"] = std::int64_t{1}; break;
      case 2: node_of("ScatterElements").attributes["reduction"] = std::string("add"); break;
      case 3:
        node_of("ScatterElements").attributes["axis"] = std::int64_t{-1};
        break;  // the same, and not known
      case 4: {
        const float one = 1;
        node_of("ConstantOfShape").attributes["value"] = Tensor::floats({1}, {&one, 1});
        break;
      }
      case 5: {
        // One place twice: the last number counts, which the sparse form does not say.
        const Tensor gaps = constants.at("a.outliers.gaps");
        if (gaps.size() < 2) continue;
        std::vector<std::byte> bytes(gaps.bytes().begin(), gaps.bytes().end());
        bytes[2] = bytes[3] = std::byte{0};
        constants["a.outliers.gaps"] = Tensor(ElementType::kUint16, gaps.shape(), bytes);
        break;
      }
      case 6: {
        const Tensor gaps = constants.at("a.outliers.gaps");
        if (gaps.size() < 1) continue;
        std::vector<std::byte> bytes(gaps.bytes().begin(), gaps.bytes().end());
        bytes[0] = bytes[1] = std::byte{255};  // outside
        constants["a.outliers.gaps"] = Tensor(ElementType::kUint16, gaps.shape(), bytes);
        break;
      }
      case 7: std::swap(node_of("ScatterElements").inputs[1], node_of("ScatterElements").inputs[2]); break;
      case 9: constants["a.outliers.axis"] = Tensor::scalar(std::int64_t{1}); break;
      case 10:
        node_of("Cast").attributes["to"] = std::int64_t{crumb::graph::onnx_number(ElementType::kUint8)};
        break;
      case 11: {
        const std::int64_t all = std::int64_t{1} << 30, shape[] = {1, all};
        constants["a.outliers.size"] = Tensor::ints({1}, {&all, 1});
        constants["a.outliers.shape"] = Tensor::ints({2}, shape);
        break;
      }
      case 8: {
        const std::int64_t more = constants.at("a.outliers.size").to_ints()[0] + 1;
        constants["a.outliers.size"] = Tensor::ints({1}, {&more, 1});
        break;
      }
    }
    CHECK(!crumb::graph::sparse_matrix(graph, crumb::graph::Links(graph), value));
    ++refused;
  }
  CHECK(refused > 200);
}

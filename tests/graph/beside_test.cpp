// What came beside products is found again, whatever stands on what; sums that only look like it are none.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "graph/adapters.h"
#include "graph/branches.h"
#include "graph/quantize/operators.h"
#include "graph/sparse_products.h"
#include "tests/graph/node_builder.h"

namespace {

using crumb::graph::Branch;
using crumb::graph::Graph;
using crumb::graph::Links;
using crumb::graph::NodeBuilder;
using crumb::graph::Tensor;

Tensor numbers_of_shape(std::mt19937& random, std::int64_t rows, std::int64_t columns) {
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (float& value : values) value = std::normal_distribution<float>()(random);
  return Tensor::floats({rows, columns}, values);
}

/// MatMul and Add of a bias, in the names that exporters give: the sum's may begin the product's.
Graph biased_layer(std::mt19937& random, const std::string& product, const std::string& sum) {
  NodeBuilder build;
  const std::string x = build.input("x", {5, 4});
  const std::string w = build.constant("w.weight", numbers_of_shape(random, 4, 3));
  const std::string b = build.constant("b", numbers_of_shape(random, 1, 3));
  build.graph.nodes.push_back(
      {.name = "product", .op = "MatMul", .version = 17, .inputs = {x, w}, .outputs = {product}});
  build.graph.nodes.push_back(
      {.name = "sum", .op = "Add", .version = 17, .inputs = {product, b}, .outputs = {sum}});
  build.graph.outputs = {sum};
  return build.graph;
}

TEST_CASE("beside: sums of other programs that are called alike") {
  std::mt19937 random(1);
  for (const std::string product : {"p", "y.1", "y.product", "y.a.base", "y.a.base_1"}) {
    CAPTURE(product);
    Graph graph = biased_layer(random, product, "y");
    const Links links(graph);
    CHECK(crumb::graph::branches_of(graph, links).sums.empty());  // a constant is nothing that came beside
    CHECK(crumb::graph::last_sum_behind(graph, links, 0) == 0);
    const auto bias = crumb::graph::bias_of(graph, links, 0);
    REQUIRE(bias);
    CHECK(bias->node == 1);
    CHECK(bias->input == 1);
  }
  for (const std::string& product : {std::string("h.1"), std::string("h.base.1"), std::string("g.a.base")}) {
    Graph graph = biased_layer(random, product, "h");  // of two products, neither beside the other
    graph.initializers.erase("b");
    graph.nodes.insert(
        graph.nodes.begin(),
        {.name = "other", .op = "MatMul", .version = 17, .inputs = {"x", "w.weight"}, .outputs = {"b"}});
    const Links links(graph);
    CHECK(crumb::graph::branches_of(graph, links).sums.empty());
    CHECK(crumb::graph::last_sum_behind(graph, links, 1) == 1);
  }
}

TEST_CASE("beside: drawn stacks of adapters and single weights") {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    Graph graph = biased_layer(random, random() % 2 ? "y.1" : "p", "y");
    std::vector<Branch> made;
    bool has_numbers = false;
    for (std::size_t count = random() % 4, adapters = 0; count > 0; --count) {
      if (!has_numbers && random() % 3 == 0) {
        has_numbers = true;
        const crumb::graph::SparseMatrix few{.rows = 4, .columns = 3, .places = {1, 7}, .numbers = {1, -2}};
        for (const Branch& one : add_sparse(graph, crumb::graph::linear_products(graph), few))
          made.push_back(one);
        graph = crumb::graph::sorted(std::move(graph));
        continue;
      }
      crumb::LowRankUpdate update{
          .module = "w", .rank = 1, .in = 4, .out = 3, .down = {1, 2, 3, 4}, .up = {1, 0, 2}};
      std::vector<Branch> more;
      graph =
          crumb::graph::add_adapter(std::move(graph), {.updates = {update}}, "a" + std::to_string(adapters++),
                                    crumb::graph::AdapterType::kBfloat16, &more);
      made.insert(made.end(), more.begin(), more.end());
    }
    const Links links(graph);
    const auto found = crumb::graph::branches_of(graph, links);
    REQUIRE(found.sums.size() == made.size());
    std::set<std::string> takers, wanted;
    std::string product = "y";
    for (const crumb::graph::Node& node : graph.nodes)
      if (node.is("MatMul") && node.inputs[1] == "w.weight") product = node.outputs[0];
    for (const Branch& one : found.sums) {
      takers.insert(one.taker);
      CHECK(one.product == product);
    }
    for (const Branch& one : made) wanted.insert(one.taker);
    CHECK(takers == wanted);
    const std::size_t node = links.producer(product);
    const auto bias = crumb::graph::bias_of(graph, links, node);
    REQUIRE(bias);
    CHECK(graph.nodes[bias->node].outputs[0] == "y");
    const std::size_t last = crumb::graph::last_sum_behind(graph, links, node);
    CHECK((last == node) == made.empty());
    CHECK(graph.nodes[bias->node].inputs[0] == graph.nodes[last].outputs[0]);
  }
}

}  // namespace

// Graphs: constants of every type, order, and what is wrong with unsound ones.
#include "graph/graph.h"

#include <doctest/doctest.h>

#include <cstring>

#include "graph/edit.h"
#include "graph/passes/passes.h"

namespace {

using crumb::Error;
using namespace crumb::graph;

std::vector<std::byte> bytes_of(std::initializer_list<unsigned> values) {
  std::vector<std::byte> bytes;
  for (const unsigned value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

Node node(const char* name, std::vector<std::string> inputs, std::vector<std::string> outputs) {
  return {.name = name, .op = "Add", .inputs = std::move(inputs), .outputs = std::move(outputs)};
}

TEST_CASE("elements below a byte are read lowest bits first, with their sign") {
  CHECK(Tensor(ElementType::kInt4, {3}, bytes_of({0x87, 0x0F})).to_ints() ==
        std::vector<std::int64_t>{7, -8, -1});
  CHECK(Tensor(ElementType::kUint4, {3}, bytes_of({0x87, 0x0F})).to_ints() ==
        std::vector<std::int64_t>{7, 8, 15});
  CHECK(Tensor(ElementType::kInt2, {5}, bytes_of({0b11100100, 0b01})).to_ints() ==
        std::vector<std::int64_t>{0, 1, -2, -1, 1});
  CHECK(Tensor(ElementType::kUint2, {4}, bytes_of({0b11100100})).to_ints() ==
        std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(Tensor(ElementType::kFloat4E2M1, {2}, bytes_of({0xF1})).to_floats() == std::vector<float>{0.5F, -6});
  CHECK(Tensor(ElementType::kInt4, {2}, bytes_of({0x87})).to_floats() == std::vector<float>{7, -8});
}

TEST_CASE("a tensor has the bytes that its shape takes") {
  CHECK_THROWS_WITH_AS(Tensor(ElementType::kFloat, {2}, bytes_of({0, 0, 0, 0})),
                       "a tensor of float [2] takes 8 bytes, found 4", Error);
  CHECK_THROWS_AS(Tensor(ElementType::kString, {1}, {}), Error);
  CHECK_THROWS_AS(Tensor(ElementType::kUint8, {-1}, {}), Error);
  CHECK_THROWS_AS(Tensor(ElementType::kUint8, {std::int64_t{1} << 40, std::int64_t{1} << 40}, {}), Error);
  CHECK(Tensor(ElementType::kUint8, {0, std::int64_t{1} << 62}, {}).size() == 0);
  CHECK_THROWS_AS(Tensor::scalar(1.0F).to_ints(), Error);
  CHECK_THROWS_AS(Tensor::scalar(1.0F).reshaped({2}), Error);
}

TEST_CASE("attributes of another type are an error that names the node") {
  Node n = node("a", {}, {});
  n.attributes["axis"] = 1.5F;
  CHECK_THROWS_WITH_AS(n.int_or("axis", 0),
                       "node 'a' (Add): attribute 'axis' is a number, expected an integer", Error);
  CHECK(n.int_or("other", 3) == 3);
}

TEST_CASE("nodes are put in order, and an order that is good stays") {
  Graph graph{.inputs = {"x"}, .outputs = {"z"}};
  graph.nodes = {node("second", {"y", "w"}, {"z"}), node("first", {"x"}, {"y"}),
                 node("zeroth", {"x"}, {"w"})};
  graph = sorted(graph);
  CHECK(graph.nodes[0].name == "first");
  CHECK(graph.nodes[1].name == "zeroth");
  CHECK(graph.nodes[2].name == "second");
}

TEST_CASE("unsound graphs are named by what is wrong") {
  Graph graph{.inputs = {"x"}, .outputs = {"y"}};
  graph.nodes = {node("a", {"x", "b"}, {"y"}), node("b", {"y"}, {"b"})};
  CHECK_THROWS_WITH_AS(sorted(graph), "the graph has a cycle through node 'a' (Add)", Error);
  graph.nodes = {node("a", {"x", "nobody"}, {"y"})};
  CHECK_THROWS_WITH_AS(sorted(graph),
                       "node 'a' (Add) takes the value 'nobody', which no node, input or initializer makes",
                       Error);
  graph.nodes = {node("a", {"x"}, {"y"}), node("b", {"x"}, {"y"})};
  CHECK_THROWS_WITH_AS(sorted(graph), "value 'y' has two producers: node 'a' (Add) and node 'b' (Add)",
                       Error);
  graph.nodes = {node("a", {"x"}, {"x"})};
  CHECK_THROWS_WITH_AS(sorted(graph),
                       "value 'x' has two producers: an input or initializer and node 'a' (Add)", Error);
  graph.nodes = {};
  CHECK_THROWS_WITH_AS(sorted(graph), "the output 'y' is made by no node, input or initializer", Error);
}

TEST_CASE("a node that changes nothing is bypassed, also before an output") {
  Graph graph{.inputs = {"x"}, .outputs = {"y"}};
  graph.nodes = {node("a", {"x"}, {"m"}), node("same", {"m"}, {"y"})};
  CHECK(bypass(graph, 1, 0));
  REQUIRE(graph.nodes.size() == 1);
  CHECK(graph.nodes[0].outputs[0] == "y");
  CHECK(sorted(graph).nodes.size() == 1);
  // From an input straight to an output: the node has to stay.
  graph.nodes = {node("same", {"x"}, {"y"})};
  CHECK_FALSE(bypass(graph, 0, 0));
  CHECK(graph.nodes.size() == 1);
}

TEST_CASE("what no output needs goes") {
  Graph graph{.inputs = {"x"}, .outputs = {"y"}};
  graph.initializers["used"] = Tensor::scalar(1.0F);
  graph.initializers["idle"] = Tensor::scalar(1.0F);
  graph.values["gone"] = {};
  graph.nodes = {node("a", {"x", "used"}, {"y"}), node("dead", {"x", "idle"}, {"gone"})};
  drop_unused(graph);
  CHECK(graph.nodes.size() == 1);
  CHECK(graph.initializers.contains("used"));
  CHECK_FALSE(graph.initializers.contains("idle"));
  CHECK_FALSE(graph.values.contains("gone"));
}

TEST_CASE("every pass is listed once, with a line about it") {
  for (const Pass& pass : all_passes()) {
    CHECK(find_pass(pass.name) == &pass);
    CHECK_FALSE(pass.what.empty());
  }
  CHECK(find_pass("no-such-pass") == nullptr);
}

}  // namespace

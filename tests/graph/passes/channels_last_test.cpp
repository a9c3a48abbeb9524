// channels_last: what is moved and what stays. That outputs stay is checked by executing, in test_channels_last.py.
#include <doctest/doctest.h>

#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/strided_index.h"
#include "tests/graph/passes/builder.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;

const Node* find(const Graph& graph, std::string_view op) {
  const auto found = std::ranges::find(graph.nodes, op, &Node::op);
  return found == graph.nodes.end() ? nullptr : &*found;
}

TEST_CASE("a convolution's weight is [M, k..., C/group], and its scales move along") {
  Builder b({1, 2, 5, 6});
  b.counting("w", {3, 2, 3, 4});
  b.counting("s", {3, 1, 1, 1});
  b.counting("z", {}, 0);
  b.counting("n", {}, 4);
  b.node("Quant", {"w", "s", "z", "n"}, {"q"}, {{"signed", std::int64_t{1}}, {"narrow", std::int64_t{0}}},
         kQonnxDomain);
  b.node("Conv", {"x", "q"}, {"y"});
  const Graph made = channels_last(b.graph);
  const Node* conv = find(made, "Conv");
  REQUIRE(conv);
  CHECK(conv->domain == kChannelsLastDomain);
  CHECK(made.opset(kChannelsLastDomain) == 13);
  CHECK(conv->version == 13);
  const Node* quant = find(made, "Quant");
  CHECK(made.constant(quant->inputs[0])->shape() == Ints{3, 3, 4, 2});
  CHECK(made.constant(quant->inputs[1])->shape() == Ints{3, 1, 1, 1});
  CHECK(made.shape_of(conv->outputs[0]) == Shape{1, 3, 3, 3});
  CHECK(made.shape_of("y") == Shape{1, 3, 3, 3});
  CHECK(made.nodes.size() == 4);  // and a Transpose at either end
}

TEST_CASE("inputs are channels-last where that is wished, and keep their names") {
  Builder b({1, 2, 5, 6});
  b.counting("w", {3, 2, 3, 4});
  b.node("Conv", {"x", "w"}, {"y"});
  const Graph made = channels_last(b.graph, true);
  CHECK(made.inputs == std::vector<std::string>{"x"});
  CHECK(made.shape_of("x") == Shape{1, 5, 6, 2});
  CHECK(made.nodes.size() == 2);
}

TEST_CASE("rows of the weight behind a Flatten are put in the new order") {
  Builder b({1, 2, 1, 3});
  b.counting("w", {2, 2, 1, 1});
  b.counting("rows", {6, 1}, 0);
  b.node("Conv", {"x", "w"}, {"a"});
  b.node("Flatten", {"a"}, {"f"});
  b.node("MatMul", {"f", "rows"}, {"y"});
  const Graph made = channels_last(b.graph);
  const Node* product = find(made, "MatMul");
  REQUIRE(product);
  CHECK(made.constant(product->inputs[1])->to_floats() == std::vector<float>{0, 3, 1, 4, 2, 5});
}

TEST_CASE("a Flatten that something else takes too flattens channels-first data") {
  Builder b({1, 2, 1, 3});
  b.graph.outputs = {"y", "f"};
  b.counting("w", {2, 2, 1, 1});
  b.counting("rows", {6, 1}, 0);
  b.node("Conv", {"x", "w"}, {"a"});
  b.node("Flatten", {"a"}, {"f"});
  b.node("MatMul", {"f", "rows"}, {"y"});
  const Graph made = channels_last(b.graph);
  CHECK(made.constant(find(made, "MatMul")->inputs[1])->to_floats() == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(std::ranges::count(made.nodes, "Transpose", &Node::op) == 2);
}

TEST_CASE("three spatial axes, unknown ranks and training stay as they are") {
  Builder volume({1, 2, 3, 3, 3});
  volume.counting("w", {2, 2, 1, 1, 1});
  volume.node("Conv", {"x", "w"}, {"y"});
  CHECK(channels_last(volume.graph).nodes[0].domain == kOnnxDomain);

  Builder unknown({1, 2, 3, 3});
  unknown.graph.values["x"].shape.reset();
  unknown.counting("w", {2, 2, 1, 1});
  unknown.node("Conv", {"x", "w"}, {"y"});
  CHECK(channels_last(unknown.graph).nodes.size() == 1);

  Builder pool({1, 2, 4, 4});
  pool.graph.outputs = {"y", "i"};
  pool.node("MaxPool", {"x"}, {"y", "i"}, {{"kernel_shape", Ints{2, 2}}});
  CHECK(channels_last(pool.graph).nodes.size() == 1);
}

TEST_CASE("a strided index walks every permutation and every broadcast") {
  const Tensor cube =
      Tensor::ints({2, 3, 4}, std::vector<std::int64_t>{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                                        12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
  Ints perm{0, 1, 2};
  do {
    const Tensor turned = transposed(cube, perm);
    const auto values = turned.to_ints();
    Ints at(3);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto rest = static_cast<std::int64_t>(i);
      const Ints& shape = turned.shape();
      const Ints place{rest / (shape[1] * shape[2]), rest / shape[2] % shape[1], rest % shape[2]};
      for (std::size_t axis = 0; axis < 3; ++axis) at[static_cast<std::size_t>(perm[axis])] = place[axis];
      CHECK(values[i] == at[0] * 12 + at[1] * 4 + at[2]);
    }
  } while (std::ranges::next_permutation(perm).found);
  auto index = StridedIndex::broadcast(Ints{2, 3, 2}, Ints{3, 1});
  REQUIRE(index);
  for (std::size_t i = 0; i < 12; ++i, index->next()) CHECK(index->at() == i / 2 % 3);
  CHECK_FALSE(StridedIndex::broadcast(Ints{2, 3}, Ints{2}));
  CHECK_FALSE(StridedIndex::broadcast(Ints{3}, Ints{1, 3}));
  CHECK(transposed(Tensor::floats({0, 3}, {}), Ints{1, 0}).shape() == Ints{3, 0});
}

}  // namespace
}  // namespace crumb::graph

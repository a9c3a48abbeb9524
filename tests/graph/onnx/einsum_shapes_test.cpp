// Einsum's equations and operands of any form: inferring shapes ends, and what it says is right.
#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/onnx/infer_shapes.h"

using crumb::graph::ElementType;
using crumb::graph::Graph;
using crumb::graph::Node;
using crumb::graph::Shape;
using crumb::graph::Value;

namespace {

std::optional<Shape> inferred(const std::string& equation,
                              const std::vector<std::optional<Shape>>& operands) {
  Graph graph;
  graph.opsets[""] = 13;
  Node node{
      .name = "n", .op = "Einsum", .version = 13, .outputs = {"y"}, .attributes = {{"equation", equation}}};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    graph.inputs.push_back(name);
    graph.values[name] = Value{.type = ElementType::kFloat, .shape = operands[i]};
    node.inputs.push_back(name);
  }
  graph.nodes.push_back(std::move(node));
  graph.outputs = {"y"};
  return crumb::graph::infer_shapes(std::move(graph)).shape_of("y");
}

Shape shape_of_rank(std::mt19937_64& engine, std::size_t rank) {
  Shape shape;
  for (std::size_t i = 0; i < rank; ++i) shape.emplace_back(static_cast<std::int64_t>(1 + engine() % 4));
  return shape;
}

}  // namespace

TEST_CASE("Einsum: shapes of operands that do not fit an equation end in nothing worse than no shape") {
  CHECK(!inferred("...ij,...jk->...ik", {Shape{2, 3}, Shape{4, 3, 5}}));  // read beyond the first one's, once
  std::mt19937_64 engine(3);
  constexpr const char* kPieces[] = {"i", "j",  "k", "ij", "...", "...i", "i...", ",",
                                     ",", "->", " ", ".",  "..",  "Z",    "1"};
  for (int round = 0; round < 6000; ++round) {
    std::string equation;
    for (std::size_t i = engine() % 9; i > 0; --i) equation += kPieces[engine() % std::size(kPieces)];
    CAPTURE(equation);
    std::vector<std::optional<Shape>> operands;
    for (std::size_t i = engine() % 4; i > 0; --i) {
      operands.emplace_back();
      if (engine() % 8 != 0) operands.back() = shape_of_rank(engine, engine() % 5);
    }
    CHECK_NOTHROW(inferred(equation, operands));
  }
}

TEST_CASE("Einsum: the shape of what fits is right") {
  std::mt19937_64 engine(4);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t batch = engine() % 3;
    std::map<char, std::int64_t> sizes;
    for (const char label : {'i', 'j', 'k'}) sizes[label] = static_cast<std::int64_t>(2 + engine() % 5);
    const Shape outer = shape_of_rank(engine, batch);
    const std::string dots = batch > 0 ? "..." : "";
    const auto shape = [&](const std::string& labels) {
      Shape made = outer;
      for (const char label : labels) made.emplace_back(sizes[label]);
      return made;
    };
    const std::string kept = engine() % 2 == 0 ? "ik" : "ki";
    CHECK(inferred(dots + "ij, " + dots + "jk -> " + dots + kept, {shape("ij"), shape("jk")}) == shape(kept));
  }
}

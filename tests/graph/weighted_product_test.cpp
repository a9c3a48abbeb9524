// The axes of drawn products, against the standard's shape inference: as many inputs as the data has channels, as many
// outputs as the result has.
#include "graph/weighted_product.h"

#include <doctest/doctest.h>

#include <random>

#include "graph/onnx/infer_shapes.h"
#include "tests/graph/node_builder.h"

namespace {

using crumb::graph::Attribute;
using crumb::graph::Graph;
using crumb::graph::Node;
using crumb::graph::Tensor;
using crumb::graph::Terms;
using Sizes = std::vector<std::int64_t>;

struct DrawnProduct {
  Sizes data, weight;
  std::string op;
  std::map<std::string, Attribute> attributes = {};
  std::size_t data_channels = 0, result_channels = 0;  ///< axes
  bool weight_in_front = false;
};

DrawnProduct drawn_matrix_product(std::mt19937& random) {
  const auto size = [&] { return static_cast<std::int64_t>(2 + random() % 7); };
  const std::int64_t in = size(), out = size(), rows = size();
  const bool is_gemm = random() % 2 == 0, in_front = random() % 3 == 0;
  const bool flips_data = is_gemm && random() % 2 == 0, flips_weight = is_gemm && random() % 2 == 0;
  // W x where the weight stands in front: outputs are rows of the result.
  DrawnProduct drawn{.data = in_front ? Sizes{in, rows} : Sizes{rows, in},
                     .weight = in_front ? Sizes{out, in} : Sizes{in, out},
                     .op = is_gemm ? "Gemm" : "MatMul",
                     .data_channels = in_front ? 0U : 1U,
                     .result_channels = in_front ? 0U : 1U,
                     .weight_in_front = in_front};
  if (flips_data) std::swap(drawn.data[0], drawn.data[1]), drawn.data_channels = 1 - drawn.data_channels;
  if (flips_weight) std::swap(drawn.weight[0], drawn.weight[1]);
  if (is_gemm)
    drawn.attributes = {{"transA", std::int64_t{in_front ? flips_weight : flips_data}},
                        {"transB", std::int64_t{in_front ? flips_data : flips_weight}}};
  const std::size_t batches = is_gemm ? 0 : random() % 3;
  for (std::size_t i = 0; i < batches; ++i) {
    const std::int64_t batch = size();
    drawn.weight.insert(drawn.weight.begin(), batch);
    drawn.data.insert(drawn.data.begin(), batch);
  }
  drawn.data_channels += batches;
  drawn.result_channels += batches;
  return drawn;
}

DrawnProduct drawn_convolution(std::mt19937& random) {
  const bool is_transposed = random() % 2 == 0;
  const std::size_t axes = 1 + random() % 3;
  const auto groups = static_cast<std::int64_t>(1 + random() % 3);
  const std::int64_t in = groups * static_cast<std::int64_t>(1 + random() % 4),
                     out = groups * static_cast<std::int64_t>(1 + random() % 4);
  DrawnProduct drawn{.data = {2, in},
                     .weight = is_transposed ? Sizes{in, out / groups} : Sizes{out, in / groups},
                     .op = is_transposed ? "ConvTranspose" : "Conv",
                     .attributes = {{"group", groups}},
                     .data_channels = 1,
                     .result_channels = 1};
  drawn.data.resize(axes + 2, 7);
  drawn.weight.resize(axes + 2, 3);
  return drawn;
}

TEST_CASE("axes of products are those of the standard") {
  std::mt19937 random(48);
  for (int i = 0; i < 2000; ++i) {
    const DrawnProduct drawn = i % 2 == 0 ? drawn_matrix_product(random) : drawn_convolution(random);
    CAPTURE(drawn.op);
    crumb::graph::NodeBuilder made;
    const std::string data = made.input("x", drawn.data), weight = made.input("w", drawn.weight);
    const std::vector<std::string> inputs =
        drawn.weight_in_front ? std::vector{weight, data} : std::vector{data, weight};
    const std::string result = made.node(drawn.op, inputs, drawn.attributes);
    made.graph.outputs = {result};
    const Graph graph = crumb::graph::infer_shapes(made.graph);
    const auto shape = graph.shape_of(result);
    REQUIRE(shape);
    const auto product = weighted_product(graph.nodes[0], drawn.weight.size(), drawn.weight_in_front ? 0 : 1);
    REQUIRE(product);
    CHECK(graph.nodes[0].inputs[product->data] == data);
    CHECK(graph.nodes[0].inputs[product->weight] == weight);
    CHECK(product->inputs(drawn.weight) == drawn.data[drawn.data_channels]);
    CHECK(product->outputs(drawn.weight) == (*shape)[drawn.result_channels].size);
    CHECK(product->is_convolution() == drawn.op.starts_with("Conv"));
    CHECK(product->is_convolution() == is_convolution(graph.nodes[0]));
    CHECK(product->is_convolution() != is_matrix_product(graph.nodes[0]));
  }
}

TEST_CASE("other operators have no weight") {
  crumb::graph::NodeBuilder made;
  const std::string x = made.input("x", {2, 4}), y = made.input("y", {2, 4}), z = made.input("z", {4});
  for (const char* op : {"Add", "Mul", "Gather"}) {
    made.node(op, {x, y});
    CHECK_FALSE(weighted_product(made.graph.nodes.back(), 2));
  }
  made.node("Einsum", {x, y}, {{"equation", std::string("ij,kj->ik")}});
  CHECK_FALSE(weighted_product(made.graph.nodes.back(), 2));
  made.node("Conv", {x, y});
  CHECK_FALSE(weighted_product(made.graph.nodes.back(), 2, 0));
}

TEST_CASE("a vector is both axes of a MatMul's weight") {
  crumb::graph::NodeBuilder made;
  made.node("MatMul", {made.input("x", {2, 4}), made.input("w", {4})});
  const auto product = weighted_product(made.graph.nodes.back(), 1);
  REQUIRE(product);
  CHECK(product->input_axis == 0);
  CHECK(product->output_axis == 0);
}

}  // namespace

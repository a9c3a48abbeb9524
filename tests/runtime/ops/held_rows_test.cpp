// Constants that are packed weights without codes: the runtime multiplies by them as they are, with the bits
// of their floats.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/lower/lower.h"
#include "runtime/model.h"
#include "tests/graph/node_builder.h"
#include "tests/support/block_rows.h"
#include "tests/support/samples.h"

namespace crumb::runtime {
namespace {

using graph::Tensor;
using testing::BlockRows;

std::shared_ptr<const BlockRows> drawn_blocks(std::mt19937_64& engine, std::uint64_t rows,
                                              std::uint64_t cols) {
  const std::uint64_t height = 2 + engine() % 6, width = 2 + engine() % 6;
  return std::make_shared<const BlockRows>(rows, cols, height, width,
                                           testing::normal_values(rows * cols, engine()));
}

/// y = op(inputs), one of which is the constant "w".
graph::Graph network(const std::string& op, const std::vector<std::string>& inputs, Tensor w,
                     std::map<std::string, graph::Attribute> attributes = {}) {
  graph::NodeBuilder build;
  build.constant("w", std::move(w));
  for (const std::string& input : inputs)
    if (input != "w") build.graph.inputs.push_back(input);
  build.graph.outputs = {build.node(op, inputs, std::move(attributes))};
  return std::move(build.graph);
}

std::vector<float> floats_made(const graph::Graph& graph, const Array& x, RunOptions options) {
  const Model model(graph);
  const std::vector<Array> made = model.run({x}, options);
  const auto values = made.at(0).values<float>();
  return {values.begin(), values.end()};
}

/// How a product has its constant.
struct Form {
  std::string op;
  bool outputs_first = false;  ///< of the constant's axes
};

TEST_CASE("products with rows of blocks have the bits of the product with their floats, whatever the sizes") {
  std::mt19937_64 engine(11);
  const Form forms[] = {{"MatMul", false}, {"Gemm", false}, {"Gemm", true}};
  for (int round = 0; round < 60; ++round) {
    const bool is_wide = round % 6 == 0;
    const std::uint64_t outputs = 1 + engine() % (is_wide ? 700 : 60),
                        terms = 1 + engine() % (is_wide ? 500 : 60), batch = 1 + engine() % 20;
    CAPTURE(outputs);
    CAPTURE(terms);
    CAPTURE(batch);
    const Array x =
        Array::of(Tensor::floats({static_cast<std::int64_t>(batch), static_cast<std::int64_t>(terms)},
                                 testing::normal_values(batch * terms, engine())));
    const RunOptions options{.threads = 1 + static_cast<int>(engine() % 3),
                             .promise = engine() % 2 == 0 ? Promise::kExact : Promise::kFast};
    for (const Form& form : forms) {
      CAPTURE(form.op);
      std::map<std::string, graph::Attribute> attributes;
      if (form.op == "Gemm") attributes["transB"] = std::int64_t{form.outputs_first ? 1 : 0};
      for (const bool rows_are_outputs : {true, false}) {
        CAPTURE(rows_are_outputs);
        const auto blocks =
            rows_are_outputs ? drawn_blocks(engine, outputs, terms) : drawn_blocks(engine, terms, outputs);
        const Tensor w =
            Tensor::of_rows({.source = blocks, .transposed = form.outputs_first != rows_are_outputs});
        const graph::Graph packed = network(form.op, {"x", "w"}, w, attributes);
        const graph::Graph plain =
            network(form.op, {"x", "w"}, Tensor::floats(w.shape(), w.to_floats()), attributes);
        CHECK(floats_made(packed, x, options) == floats_made(plain, x, options));
        // Rows that are no outputs are decoded once, as those of codes are.
        const PackedWeights weights = lower(packed).weights;
        CHECK(weights.packed.size() == (rows_are_outputs ? 1 : 0));
        CHECK(weights.decoded.size() == (rows_are_outputs ? 0 : 1));
        CHECK(weights.packed_bytes == (rows_are_outputs ? blocks->bytes() : 0));
      }
    }
  }
}

TEST_CASE("a product decodes each block once, and a matrix of blocks is never there as floats") {
  std::mt19937_64 engine(12);
  for (int round = 0; round < 20; ++round) {
    const std::uint64_t outputs = 1 + engine() % 600, terms = 1 + engine() % 300;
    const auto blocks = drawn_blocks(engine, outputs, terms);
    const graph::Graph graph = network("MatMul", {"x", "w"}, Tensor::of_rows({blocks, true}));
    const Model model(graph);
    CHECK(blocks->decoded() == 0);
    const Array x = Array::of(
        Tensor::floats({1, static_cast<std::int64_t>(terms)}, testing::normal_values(terms, engine())));
    for (std::uint64_t run = 1; run <= 3; ++run) {
      model.run({x}, {.threads = 1});
      CHECK(blocks->decoded() == run * blocks->blocks());
    }
  }
}

TEST_CASE("Gather picks rows out of blocks, and takes their values where it picks columns") {
  std::mt19937_64 engine(13);
  for (int round = 0; round < 40; ++round) {
    const std::uint64_t rows = 1 + engine() % 50, cols = 1 + engine() % 50;
    const auto axis = static_cast<std::int64_t>(engine() % 2);
    const bool transposed = engine() % 2 == 1;
    const Tensor w = Tensor::of_rows({drawn_blocks(engine, rows, cols), transposed});
    const auto size = static_cast<std::uint64_t>(w.shape()[static_cast<std::size_t>(axis)]);
    Ints indices(1 + engine() % 5);
    for (std::int64_t& index : indices) index = static_cast<std::int64_t>(engine() % size);
    const graph::Graph packed = network("Gather", {"w", "x"}, w, {{"axis", axis}});
    const graph::Graph plain =
        network("Gather", {"w", "x"}, Tensor::floats(w.shape(), w.to_floats()), {{"axis", axis}});
    CHECK(floats_made(packed, Array::ints(indices), {}) == floats_made(plain, Array::ints(indices), {}));
    CHECK(lower(packed).weights.packed.size() == (axis == 0 && !transposed ? 1 : 0));
  }
}

TEST_CASE("who wants values of rows of blocks has them: other operators, and outputs of the graph") {
  const auto blocks = std::make_shared<const BlockRows>(5, 7, 2, 3, testing::normal_values(35, 14));
  const Tensor w = Tensor::of_rows({blocks, false});
  graph::Graph graph = network("Add", {"x", "w"}, w);
  graph.outputs.push_back("w");
  const Model model(graph);
  const std::vector<Array> made = model.run({Array::of(Tensor::floats({1}, std::vector<float>{0}))}, {});
  const std::vector<float> expected = blocks->values();
  for (const Array& array : made) CHECK(std::ranges::equal(array.values<float>(), expected));
}

}  // namespace
}  // namespace crumb::runtime

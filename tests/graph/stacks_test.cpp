// Stacks of matrices in a network: MatMul's constants of more than two axes have a scale for each output of each matrix, run
// as codes, and go through packed files and QONNX.
#include <doctest/doctest.h>

#include <random>

#include "graph/packed/crumb_graph.h"
#include "graph/quantize/apply.h"
#include "graph/quantize/plan.h"
#include "graph/quantized_constant.h"
#include "quant/recipe/recipe.h"
#include "runtime/model.h"
#include "tests/graph/node_builder.h"
#include "tests/support/testing.h"

namespace {

using crumb::QuantSpec;
using crumb::graph::Graph;
using crumb::graph::MatrixAxes;
using crumb::graph::QuantizedConstant;
using crumb::graph::Tensor;
using Ints = std::vector<std::int64_t>;

Tensor drawn_stack_tensor(const Ints& shape, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return Tensor::floats(shape, values);
}

/// A matrix of a stack [..., a, b].
Tensor matrix_at(const Tensor& stack, std::size_t index) {
  const Ints& shape = stack.shape();
  const std::int64_t rows = shape[shape.size() - 2], columns = shape.back();
  const std::vector<float> all = stack.to_floats();
  const auto size = static_cast<std::size_t>(rows * columns);
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(index * size);
  return Tensor::floats({rows, columns}, {begin, begin + static_cast<std::ptrdiff_t>(size)});
}

/// y = MatMul(x, w), or MatMul(w, x).
struct DrawnStack {
  Graph graph;
  Tensor x, weight;
  bool in_front = false;
  std::size_t matrices = 1;
};

DrawnStack drawn_stack_network(std::mt19937& random) {
  const auto size = [&](int most) {
    return static_cast<std::int64_t>(1 + random() % static_cast<unsigned>(most));
  };
  DrawnStack drawn{.in_front = random() % 4 == 0};
  const std::int64_t in = size(9) * 4, out = size(17), rows = size(5);
  Ints stack = {1 + size(3)}, of_x;
  if (random() % 3 == 0) stack.push_back(size(3));
  for (const std::int64_t axis : stack) {
    drawn.matrices *= static_cast<std::size_t>(axis);
    of_x.push_back(random() % 3 == 0 ? 1 : axis);
  }
  if (random() % 3 == 0) of_x.clear();
  if (!of_x.empty() && random() % 4 == 0) of_x.insert(of_x.begin(), size(3));
  const auto with = [](Ints sizes, std::int64_t a, std::int64_t b) {
    sizes.push_back(a);
    sizes.push_back(b);
    return sizes;
  };
  drawn.weight = drawn_stack_tensor(drawn.in_front ? with(stack, out, in) : with(stack, in, out), random);
  drawn.x = drawn_stack_tensor(drawn.in_front ? with(of_x, in, rows) : with(of_x, rows, in), random);
  crumb::graph::NodeBuilder made;
  const std::string x = made.input("x", drawn.x.shape()), w = made.constant("w", drawn.weight);
  const std::string y = made.node("MatMul", drawn.in_front ? std::vector{w, x} : std::vector{x, w});
  made.graph.outputs = {y};
  drawn.graph = std::move(made.graph);
  return drawn;
}

crumb::Recipe weights_recipe(const std::string& spec) {
  return crumb::parse_recipe("weights: " + spec, "a recipe");
}

const char* const kStackSpecs[] = {
    "int4",      "int4:tensor", "int3:group=4", "uint4:group=4:zero=int", "int8:channel",   "int4h:group=4",
    "nvfp4:pad", "mxfp4:pad",   "palette3",     "e2m1:group=4",           "int4:block=1x4", "binary"};

TEST_CASE("each matrix of a MatMul's stack is quantized as if it were alone") {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const DrawnStack drawn = drawn_stack_network(random);
    const std::string text = kStackSpecs[random() % std::size(kStackSpecs)];
    CAPTURE(text);
    const crumb::graph::QuantPlan plan = crumb::graph::plan_quantizers(drawn.graph, weights_recipe(text), {});
    REQUIRE(plan.constants.size() == 1);
    const std::size_t rank = drawn.weight.shape().size();
    CHECK(plan.constants[0].axes == MatrixAxes(drawn.in_front ? rank - 2 : rank - 1, rank - 2));
    const QuantizedConstant codes = codes_of(plan.constants[0], drawn.graph, 1);
    const Tensor value = codes.value();
    CHECK(value.shape() == drawn.weight.shape());
    for (std::size_t m = 0; m < drawn.matrices; ++m)
      CHECK(matrix_at(value, m).to_floats() ==
            quantize_constant(QuantSpec::parse(text), matrix_at(drawn.weight, m), drawn.in_front ? 0 : 1, "w")
                .value()
                .to_floats());
    std::vector<float> some(value.size() > 3 ? static_cast<std::size_t>(value.size()) - 3 : 0);
    read_values(codes, 2, some);
    for (std::size_t k = 0; k < some.size(); ++k) CHECK(some[k] == value.to_floats()[k + 2]);
  }
}

TEST_CASE("a stack runs as codes, as its values do") {
  std::mt19937 random(8);
  for (int i = 0; i < 200; ++i) {
    DrawnStack drawn = drawn_stack_network(random);
    const std::string text = kStackSpecs[random() % std::size(kStackSpecs)];
    CAPTURE(text);
    const crumb::graph::QuantPlan plan = crumb::graph::plan_quantizers(drawn.graph, weights_recipe(text), {});
    Graph coded = drawn.graph, floats = drawn.graph;
    coded.quantized["w"] = codes_of(plan.constants[0], drawn.graph, 1);
    floats.initializers["w"] = coded.quantized["w"].value();
    coded.initializers.erase("w");
    const auto run = [&](Graph graph) {
      const crumb::runtime::Model model(std::move(graph));
      return model.run({crumb::runtime::Array::of(drawn.x)}, {.threads = 2})[0].tensor().to_floats();
    };
    CHECK(run(coded) == run(floats));
  }
}

TEST_CASE("a stack goes through a packed file") {
  const crumb::testing::TempDir folder;
  std::mt19937 random(9);
  for (int i = 0; i < 40; ++i) {
    const DrawnStack drawn = drawn_stack_network(random);
    const std::string text = kStackSpecs[random() % std::size(kStackSpecs)];
    CAPTURE(text);
    Graph coded =
        apply(drawn.graph, crumb::graph::plan_quantizers(drawn.graph, weights_recipe(text), {}), {});
    if (coded.quantized.empty()) continue;
    write_crumb_graph(coded, folder.path() / "w.crumb", {});
    const Graph read = crumb::graph::read_crumb_graph(folder.path() / "w.crumb");
    REQUIRE(read.quantized.size() == 1);
    const QuantizedConstant &a = coded.quantized.begin()->second, &b = read.quantized.begin()->second;
    CHECK(a.axes == b.axes);
    CHECK(a.tensor->encoding.stack_axes == b.tensor->encoding.stack_axes);
    CHECK(a.value().to_floats() == b.value().to_floats());
  }
}

}  // namespace

// A plan carried out: codes, quantizers, biases; calibration with an engine that is told what to make.
#include "graph/quantize/apply.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "graph/qonnx/quantized_constants.h"
#include "graph/quantize/calibrate.h"
#include "graph/quantize/compare.h"
#include "tests/graph/quantize/build_graph.h"
#include "tests/support/samples.h"

namespace crumb::graph {
namespace {

using crumb::testing::says;
using testing::GraphBuilder;

/// "Makes" values that the test wrote down, batch after batch.
class ToldEngine final : public Engine {
 public:
  using Made = std::map<std::string, std::vector<float>>;
  std::vector<Made> batches;

  class Told final : public Executable {
   public:
    Told(const ToldEngine& engine, Graph graph) : engine_(engine), graph_(std::move(graph)) {}
    std::vector<Tensor> run(const std::vector<Tensor>&, const Watch& watch) const override {
      const Made& made = engine_.batches[next_++ % engine_.batches.size()];
      for (const auto& [value, numbers] : made) {
        if (watch.wants(value)) watch.show(value, tensor(numbers));
      }
      std::vector<Tensor> outputs;
      for (const std::string& output : graph_.outputs) outputs.push_back(tensor(made.at(output)));
      return outputs;
    }

   private:
    static Tensor tensor(const std::vector<float>& numbers) {
      return Tensor::floats({1, static_cast<std::int64_t>(numbers.size())}, numbers);
    }
    const ToldEngine& engine_;
    Graph graph_;
    mutable std::size_t next_ = 0;
  };

  std::unique_ptr<Executable> prepare(Graph graph) const override {
    return std::make_unique<Told>(*this, std::move(graph));
  }
  bool knows(const Node&) const override { return true; }
};

Batches batches_of(const std::vector<std::vector<float>>& inputs) {
  return [=](const auto& batch) {
    for (const std::vector<float>& input : inputs) {
      batch({Tensor::floats({1, static_cast<std::int64_t>(input.size())}, input)});
    }
  };
}

Graph dense() {
  GraphBuilder b({1, 4});
  b.weight("w", {4, 3}).constant("b", {3}, {0.3F, -20, 1e9F});
  b.node("MatMul", {"x", "w"}, "m").node("Add", {"m", "b"}, "a").node("Relu", {"a"}, "r");
  b.node("Add", {"r", "a"}, "y");
  return b.done();
}

QuantPlan plan_of(const Graph& graph, const std::string& rest) {
  return plan_quantizers(graph, parse_recipe("weights: int8\n" + rest, "r"));
}

std::vector<const Node*> nodes_of(const Graph& graph, const std::string& op) {
  std::vector<const Node*> found;
  for (const Node& node : graph.nodes) {
    if (node.op == op) found.push_back(&node);
  }
  return found;
}

TEST_CASE("apply: codes of each operator's weights follow its output axis") {
  struct Row {
    std::string op;
    std::vector<std::int64_t> in, weight;
    std::map<std::string, Attribute> attributes;
    std::size_t axis;
  };
  const std::vector<Row> rows = {
      {"Conv", {1, 3, 5, 5}, {7, 3, 3, 1}, {}, 0},
      {"ConvTranspose", {1, 4, 5, 5}, {4, 3, 2, 2}, {{"group", std::int64_t{2}}}, 1},
      {"MatMul", {2, 5}, {5, 3}, {}, 1},
      {"MatMul", {2, 3, 5}, {2, 5, 7}, {}, 2},
      {"Gemm", {2, 5}, {3, 5}, {{"transB", std::int64_t{1}}}, 0}};
  for (const Row& row : rows) {
    CAPTURE(row.op);
    GraphBuilder b(row.in);
    b.weight("w", row.weight).node(row.op, {"x", "w"}, "y", row.attributes);
    const Graph graph = b.done();
    const Graph made = apply(graph, plan_of(graph, ""));
    REQUIRE(made.quantized.contains("w"));
    CHECK_FALSE(made.initializers.contains("w"));
    const Tensor before = graph.initializers.at("w"), after = made.quantized.at("w").value();
    REQUIRE(after.shape() == row.weight);
    const std::vector<float> x = before.to_floats(), y = after.to_floats();
    std::size_t inner = 1;
    for (std::size_t i = row.axis + 1; i < row.weight.size(); ++i)
      inner *= static_cast<std::size_t>(row.weight[i]);
    const auto channels = static_cast<std::size_t>(row.weight[row.axis]);
    // The matrices of a MatMul's stack have channels of their own.
    const bool is_stack = row.op == "MatMul" && row.weight.size() == 3;
    const std::size_t matrices = is_stack ? static_cast<std::size_t>(row.weight[0]) : 1;
    const auto channel = [&](std::size_t i) {
      return i / (x.size() / matrices) * channels + i / inner % channels;
    };
    std::vector<float> most(matrices * channels, 0);
    for (std::size_t i = 0; i < x.size(); ++i) most[channel(i)] = std::max(most[channel(i)], std::fabs(x[i]));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float scale = most[channel(i)] / 127;
      REQUIRE(y[i] == std::nearbyint(x[i] / scale) * scale);
    }
    CHECK_FALSE(lower_quantized(made).nodes.empty());
  }
}

TEST_CASE("calibrate and apply: scales from all batches, shared where they meet, one quantizer an edge") {
  const Graph graph = dense();
  QuantPlan plan = plan_of(graph, "activations: uint8\n");
  ToldEngine engine;
  engine.batches = {{{"m", {0}}, {"a", {-12.7F, 1}}, {"r", {0, 1}}, {"y", {0}}},
                    {{"m", {0}}, {"a", {3}}, {"r", {25.5F}}, {"y", {0}}}};
  calibrate(graph, engine, batches_of({{1, -2, 0, 0.5F}, {0, 0, 0, 6.35F}}), plan);
  REQUIRE(plan.edges.size() == 3);
  CHECK_FALSE(plan.needs_calibration());
  CHECK(plan.edges[0].value == "x");
  CHECK(plan.edges[0].scale == 6.35F / 127);
  CHECK(plan.edges[0].least == -2);
  CHECK(plan.edges[1].value == "a");
  CHECK(plan.edges[1].scale == std::max(12.7F / 127, 25.5F / 255));
  CHECK(plan.edges[2].scale == plan.edges[1].scale);

  const Graph made = apply(graph, plan);
  const auto quantizers = nodes_of(made, "Quant");
  REQUIRE(quantizers.size() == 3);
  for (const PlannedEdge& edge : plan.edges) {
    const auto found =
        std::ranges::find_if(quantizers, [&](const Node* node) { return node->inputs[0] == edge.value; });
    REQUIRE(found != quantizers.end());
    const Node& node = **found;
    CHECK(made.constant(node.inputs[1])->to_floats() == std::vector<float>{edge.scale});
    CHECK(made.constant(node.inputs[1])->rank() == 0);
    CHECK(made.constant(node.inputs[2])->to_floats() == std::vector<float>{0});
    CHECK(made.constant(node.inputs[3])->to_floats() == std::vector<float>{8});
    CHECK((node.int_or("signed", -1) != 0) == (edge.value != "r"));
    CHECK(node.int_or("narrow", -1) == (edge.value != "r"));
    // Everybody takes the quantized value.
    const Links links(made);
    CHECK(links.consumers(edge.value).size() == 1);
  }
  CHECK(made.opset(kQonnxDomain) == 1);
  CHECK(made.outputs == graph.outputs);
}

TEST_CASE("apply: shapes are asked of the value itself, and outputs stay") {
  GraphBuilder b({1, 4});
  b.weight("w", {4, 4}).node("MatMul", {"x", "w"}, "m").node("MatMul", {"m", "w"}, "n");
  b.node("Shape", {"m"}, "s").node("Reshape", {"n", "s"}, "y");
  b.graph.outputs = {"y", "m"};
  const Graph graph = b.done();
  QuantPlan plan = plan_of(graph, "activations: int4\n");
  for (PlannedEdge& edge : plan.edges) edge.scale = 0.5F;
  const Graph made = apply(graph, plan);
  CHECK(made.outputs == std::vector<std::string>{"y", "m"});
  CHECK(nodes_of(made, "Shape")[0]->inputs[0] == "m");
  CHECK(nodes_of(made, "Quant").size() == 2);
  CHECK(nodes_of(made, "MatMul")[0]->inputs[0] == "x_quantized");
}

TEST_CASE("apply: every number format has its quantizer") {
  for (const char* spec :
       {"int8", "uint4:zero=int", "int2h", "binary", "e4m3fn", "int3:range=full:round=floor"}) {
    CAPTURE(spec);
    GraphBuilder b({1, 4});
    b.weight("w", {4, 3}).node("MatMul", {"x", "w"}, "y");
    const Graph graph = b.done();
    QuantPlan plan = plan_of(graph, "inputs: " + std::string(spec) + "\n");
    REQUIRE(plan.edges.size() == 1);
    plan.edges[0].scale = 0.25F;
    plan.edges[0].zero_point = plan.edges[0].spec.zero == ZeroPoint::kNone ? 0.0F : 3.0F;
    const Graph made = apply(graph, plan);
    const Node& node = made.nodes[0];
    const auto number = [&](std::size_t i) { return made.constant(node.inputs[i])->to_floats().at(0); };
    CHECK(number(1) == 0.25F);
    const std::string text(spec);
    if (text == "binary") CHECK(node.op == "BipolarQuant");
    if (text == "e4m3fn") {
      CHECK(node.op == "FloatQuant");
      CHECK(number(2) == 4);
      CHECK(number(3) == 3);
      CHECK(number(4) == 7);
      CHECK(number(5) == 448);
    }
    if (text == "int2h") {
      CHECK(number(2) == -0.5F);
      CHECK(node.int_or("narrow", 1) == 0);
    }
    if (text == "uint4:zero=int") CHECK(number(2) == 3);
    if (text.starts_with("int3")) {
      CHECK(node.text_or("rounding_mode", "") == "FLOOR");
      CHECK(node.int_or("narrow", 1) == 0);
    }
  }
}

TEST_CASE("apply: biases are whole numbers times the scale of input and weight") {
  Graph graph = dense();
  QuantPlan plan = plan_of(graph, "activations: uint8\nbiases: int24\n");
  REQUIRE(plan.biases.size() == 1);
  for (PlannedEdge& edge : plan.edges) edge.scale = 0.05F;
  // Nothing would be left of 1e9; 100 is not cut off.
  CHECK_THROWS_WITH_AS(apply(graph, plan),
                       doctest::Contains("does not fit: 1 of its 3 numbers are beyond int24"), Error);
  graph.initializers["b"] = Tensor::floats({3}, std::vector<float>{0.3F, -20, 100});
  plan = plan_of(graph, "activations: uint8\nbiases: int24\n");
  for (PlannedEdge& edge : plan.edges) edge.scale = 0.05F;
  const Graph made = apply(graph, plan);
  const auto quantizers = nodes_of(made, "Quant");
  const auto found =
      std::ranges::find_if(quantizers, [](const Node* node) { return node->inputs[0] == "b_values"; });
  REQUIRE(found != quantizers.end());
  const std::vector<float> values = made.constant("b_values")->to_floats();
  const Tensor& scale = *made.constant((*found)->inputs[1]);
  CHECK(scale.shape() == std::vector<std::int64_t>{3});
  const RowDecoder decoder(made.quantized.at("w").tensor->view());
  const std::vector<float> before = graph.initializers.at("b").to_floats();
  for (std::size_t i = 0; i < 3; ++i) {
    const float s = 0.05F * decoder.scale(i);
    CHECK(scale.to_floats()[i] == s);
    const float code = std::nearbyint(values[i] / s);
    CHECK(values[i] == code * s);
    CHECK(std::fabs(values[i] - before[i]) <= s / 2 * 1.00001F);
  }
  CHECK(made.constant((*found)->inputs[3])->to_floats() == std::vector<float>{24});
  CHECK((*found)->int_or("narrow", 1) == 0);
  CHECK((*found)->int_or("signed", 0) == 1);
}

TEST_CASE("apply: a channel without weights keeps its bias") {
  const QuantizedConstant weight = quantize_constant(
      QuantSpec::parse("int8"), Tensor::floats({2, 2}, std::vector<float>{0, 0, 1, -2}), 0, "w");
  const BiasValues made =
      quantize_bias(Tensor::floats({2}, std::vector<float>{0.7F, 0.7F}), weight, 0.01F, 8);
  CHECK(made.values.to_floats()[0] == 0.7F);
  CHECK(made.saturated == 1);
}

TEST_CASE("calibrate: what is wrong with the data is said") {
  const Graph graph = dense();
  ToldEngine engine;
  const auto failure = [&](const ToldEngine::Made& made) {
    engine.batches = {made};
    QuantPlan plan = plan_of(graph, "activations: uint8\n");
    try {
      calibrate(graph, engine, batches_of({{1, 2}}), plan);
      return std::string(plan.notes.back());
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  CHECK(says(failure({{"a", {NAN, 1, INFINITY}}, {"r", {1}}, {"y", {0}}}),
             {"'a'", "2 inf or NaN", "3 values"}));
  CHECK(says(failure({{"a", {}}, {"r", {1}}, {"y", {0}}}), {"'a'", "no calibration sample"}));
  CHECK(says(failure({{"a", {0, 0}}, {"r", {1}}, {"y", {0}}}), {"'a'", "0 throughout"}));
  QuantPlan plan = plan_of(graph, "activations: keep\ninputs: uint8\n");
  engine.batches = {{{"y", {0}}}};
  calibrate(graph, engine, batches_of({{1, -2}}), plan);
  CHECK(says(plan.notes.back(), {"'x'", "-2", "uint8"}));
}

TEST_CASE("calibrate: edges with zero points that share a scale share the zero point") {
  const Graph graph = dense();
  QuantPlan plan = plan_of(graph, "activations: uint8:zero=int\n");
  ToldEngine engine;
  engine.batches = {{{"a", {-1, 1}}, {"r", {0, 4}}, {"y", {0}}}};
  calibrate(graph, engine, batches_of({{1, 2}}), plan);
  const auto& a = plan.edges[1];
  const auto& r = plan.edges[2];
  CHECK(a.scale == r.scale);
  CHECK(a.zero_point == r.zero_point);
  CHECK((0 - a.zero_point) * a.scale <= -0.98F);
  CHECK((255 - a.zero_point) * a.scale >= 3.98F);
}

}  // namespace
}  // namespace crumb::graph

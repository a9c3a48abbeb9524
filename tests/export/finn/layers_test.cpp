// What FINN is told of layers and inputs, against counting by hand.
#include "export/finn/layers.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "graph/onnx/infer_shapes.h"
#include "tests/graph/node_builder.h"
#include "tests/support/samples.h"

namespace crumb::exporting::finn {
namespace {

using graph::Tensor;
using testing::says;

using Ints = std::vector<std::int64_t>;

struct Net : graph::NodeBuilder {
  /// Codes times 1/4.
  std::string weight(const Ints& shape, std::vector<float> codes) {
    for (float& code : codes) code *= 0.25F;
    const std::string n = std::to_string(graph.nodes.size());
    return quant(constant("w" + n, Tensor::floats(shape, codes)), Tensor::scalar(0.25F), 0, 4);
  }
  nlohmann::ordered_json layers() { return layers_of(graph::infer_shapes(graph), {}); }
};

TEST_CASE("FINN: a layer's input, the worst sums of its products without its bias, and its products") {
  Net net;
  const std::string x = net.quant(net.input("x", {1, 3}), Tensor::scalar(0.5F), 0, 3);  // -4 to 3
  const std::string dense =
      net.node("MatMul", {x, net.weight({3, 2}, {1, -2, 3, 0, -1, 5})});  // columns 1 3 -1, -2 0 5
  const std::string bias = net.quant(net.constant("b", Tensor::floats({2}, std::vector<float>{100, 200})),
                                     Tensor::scalar(0.125F), 0, 16);
  const std::string y = net.quant(net.node("Add", {dense, bias}), Tensor::scalar(0.5F), 0, 2, false);
  net.graph.outputs = {net.node("MatMul", {y, net.weight({2, 4}, {1, 2, 3, 4, 5, 6, 7, -3})})};
  const auto made = net.layers();
  REQUIRE(made.size() == 2);
  CHECK(made[0] == nlohmann::ordered_json{{"node", net.graph.nodes[2].name},
                                          {"input", {{"min", -4}, {"max", 3}}},
                                          {"accumulator", {{"min", -26}, {"max", 23}}},
                                          {"macs", 6}});
  CHECK(made[1]["input"] == nlohmann::ordered_json{{"min", 0}, {"max", 3}});
  CHECK(made[1]["accumulator"] == nlohmann::ordered_json{{"min", -9}, {"max", 30}});
  CHECK(made[1]["macs"] == 8);
}

TEST_CASE("FINN: every layer of which nothing can be counted is named, and no other") {
  Net net;
  const std::string known = net.quant(net.input("x", {1, 3}), Tensor::scalar(0.5F), 0, 3);
  const std::string w = net.weight({3, 3}, {1, -2, 3, 0, -1, 5, 1, 1, 1});
  const std::string one = net.node("MatMul", {known, w});
  const std::string two = net.node("MatMul", {net.node("Softmax", {one}), w});
  const std::string both =
      net.node("MatMul", {net.quant(two, Tensor::scalar(0.5F), 0, 3),
                          net.quant(net.input("k", {3, 3}), Tensor::scalar(0.5F), 0, 3)});
  const std::string floats = net.constant("f", Tensor::floats({3, 3}, std::vector<float>(9, 0.3F)));
  net.graph.outputs = {net.node("MatMul", {both, floats})};
  const auto named = [&](const std::string& value) {
    return "layer '" + value.substr(0, value.size() - std::string("_out").size()) + "'";
  };
  try {
    net.layers();
    FAIL_CHECK("taken");
  } catch (const Error& error) {
    const std::string text = error.what();
    CHECK(says(text, {named(two).c_str(), "(Softmax)", named(net.graph.outputs[0]).c_str()}));
    CHECK(text.find(named(one)) == std::string::npos);
    CHECK(text.find(named(both)) == std::string::npos);  // both sides are computed
  }
}

TEST_CASE("FINN: an input's span is that of its quantizer, through what scales, shifts and moves it") {
  struct Case {
    const char* op;
    float number;
    double factor, shift;  // of the node: x * factor + shift
  };
  for (const Case& it : {Case{"Identity", 0, 1, 0}, Case{"Add", 3, 1, 3}, Case{"Sub", 3, 1, -3},
                         Case{"Mul", 4, 4, 0}, Case{"Mul", -4, -4, 0}, Case{"Div", 4, 0.25, 0},
                         Case{"Mul", 0, 0, 0}, Case{"Div", 0, 0, 0}, Case{"Max", 1, 0, 0}}) {
    CAPTURE(std::string(it.op));
    CAPTURE(it.number);
    Net net;
    std::vector<std::string> inputs{net.input("x", {1, 3})};
    if (it.op != std::string("Identity")) inputs.push_back(net.constant("c", Tensor::scalar(it.number)));
    net.graph.outputs = {net.quant(net.node(it.op, inputs), Tensor::scalar(0.5F), 0, 3)};  // -2 to 1.5
    const auto spans = spans_of(graph::infer_shapes(net.graph), {});
    REQUIRE(spans.contains("x") == (it.factor != 0));
    if (it.factor == 0) continue;
    const double ends[] = {(-2 - it.shift) / it.factor, (1.5 - it.shift) / it.factor};
    CHECK(spans.at("x").low == std::min(ends[0], ends[1]));
    CHECK(spans.at("x").high == std::max(ends[0], ends[1]));
    CHECK(spans.at("x").step == 0.5 / std::fabs(it.factor));
    CHECK(spans.at("x").is_quantized_first);
  }
}

TEST_CASE("FINN: an input's span is the widest of what takes it, and none where something else does") {
  Net net;
  const std::string x = net.input("x", {1, 3});
  net.graph.outputs = {net.quant(x, Tensor::scalar(0.5F), 0, 3), net.quant(x, Tensor::scalar(0.5F), 0, 4),
                       net.quant(x, Tensor::scalar(0.25F), 0, 3)};
  const auto spans = spans_of(graph::infer_shapes(net.graph), {});
  CHECK(spans.at("x").low == -4);
  CHECK(spans.at("x").high == 3.5);
  net.graph.outputs.push_back(net.node("Softmax", {x}));
  CHECK_FALSE(spans_of(graph::infer_shapes(net.graph), {}).contains("x"));
  CHECK(spans_of(graph::infer_shapes(net.graph), {{"x", {-3, 5}}}).at("x").high == 5);  // its own range
  CHECK_FALSE(spans_of(graph::infer_shapes(net.graph), {{"x", {-3, 5}}}).at("x").is_quantized_first);
}

TEST_CASE("FINN: thresholds span from half a step below the first to half a step above the last") {
  for (const auto& [numbers, low, high, step] :
       std::vector<std::tuple<std::vector<float>, double, double, double>>{
           {{1, 3, 5}, 0, 6, 2}, {{-1, 1}, -2, 2, 2}, {{4}, 3.5, 4.5, 1}}) {
    Net net;
    const auto count = static_cast<std::int64_t>(numbers.size());
    const std::string t = net.constant("t", Tensor::floats({1, count}, numbers));
    net.graph.outputs = {net.node("MultiThreshold", {net.input("x", {1, 3}), t}, {}, graph::kQonnxDomain)};
    const auto spans = spans_of(graph::infer_shapes(net.graph), {});
    REQUIRE(spans.contains("x"));
    CHECK(spans.at("x").low == low);
    CHECK(spans.at("x").high == high);
    CHECK(spans.at("x").step == step);
  }
}

}  // namespace
}  // namespace crumb::exporting::finn

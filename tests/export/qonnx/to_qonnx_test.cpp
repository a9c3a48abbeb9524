// What every QONNX file has in common: operator sets, names, what is refused and what is noted.
#include "export/qonnx/to_qonnx.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "graph/edit.h"
#include "graph/facts/constant_values.h"
#include "graph/onnx/infer_shapes.h"
#include "tests/graph/node_builder.h"
#include "tests/support/samples.h"

namespace crumb::exporting {
namespace {

using crumb::testing::says;
using graph::Graph;
using graph::Tensor;

std::string why_not(const Graph& graph, const QonnxOptions& options = {}) {
  try {
    to_qonnx(graph, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("to QONNX: its operator set stands where its operators do, and no marks are left") {
  for (const bool has_quantizer : {false, true}) {
    graph::NodeBuilder net;
    net.graph.opsets.erase(std::string(graph::kQonnxDomain));
    std::string y = net.node("Relu", {net.input("x", {1, 3})});
    if (has_quantizer) {
      net.graph.opsets[std::string(graph::kQonnxDomain)] = 1;
      const std::string w = net.quant(net.constant("w", Tensor::floats({3, 1}, std::vector<float>{1, 2, 3})),
                                      Tensor::scalar(1.0F), 0, 4);
      y = net.node("MatMul", {net.quant(y, Tensor::scalar(0.5F), 0, 4), w});
      net.graph.opsets.erase(std::string(graph::kQonnxDomain));
    }
    net.graph.outputs = {y};
    const Graph made = to_qonnx(graph::infer_shapes(net.graph), {});
    CHECK(made.opsets.contains(std::string(graph::kQonnxDomain)) == has_quantizer);
    for (const graph::Node& node : made.nodes) {
      for (const auto& [name, value] : node.attributes) CHECK(name.find("mark") == std::string::npos);
    }
  }
}

TEST_CASE("to QONNX: up to twenty findings are named, and how many more there are") {
  for (const int count : {1, 19, 20, 21, 25}) {
    graph::NodeBuilder net;
    std::string y = net.input("x", {1, 3});
    net.graph.opsets["made.up"] = 1;
    for (int i = 0; i < count; ++i) {
      y = net.node("Strange", {y}, {}, "made.up");
      net.graph.values[y] = {.type = graph::ElementType::kFloat, .shape = graph::Shape{1, 3}};
    }
    net.graph.outputs = {y};
    const std::string said = why_not(net.graph);
    CHECK(says(said, {"cannot be written for qonnx"}));
    CHECK(std::ranges::count(said, '\n') == std::min(count, 20) + (count > 20 ? 1 : 0));
    const std::string rest = "and " + std::to_string(count - 20) + " more";
    CHECK((said.find(rest) != std::string::npos) == (count > 20));
  }
}

TEST_CASE(
    "to QONNX: what is approximate is refused, or noted where it may be; a warning is always but a note") {
  const auto graph_of = [](float scale, const char* op) {
    graph::NodeBuilder net;
    net.graph.outputs = {net.node(op, {net.quant(net.input("x", {1, 3}), Tensor::scalar(scale), 0, 4)})};
    return graph::infer_shapes(net.graph);
  };
  const auto notes_of = [](const Graph& graph, bool allow) {
    std::vector<std::string> notes;
    CHECK(why_not(graph, {.profile = Profile::kHls4ml, .allow_approximate = allow, .notes = &notes}) == "");
    return notes;
  };
  const Graph plain = graph_of(0.5F, "Relu"), odd_scale = graph_of(0.3F, "Relu"),
              table = graph_of(0.5F, "Sigmoid");
  CHECK(notes_of(plain, false).empty());
  CHECK(notes_of(plain, true).empty());
  CHECK(says(why_not(odd_scale, {.profile = Profile::kHls4ml}), {"power-of-two"}));
  CHECK(why_not(odd_scale) == "");
  CHECK(why_not(odd_scale, {.profile = Profile::kHls4ml, .allow_approximate = true}) == "");
  REQUIRE(notes_of(odd_scale, true).size() == 1);
  CHECK(notes_of(odd_scale, true)[0].starts_with("hls4ml, power-of-two: "));
  for (const bool allow : {false, true}) {
    REQUIRE(notes_of(table, allow).size() == 1);
    CHECK(notes_of(table, allow)[0].starts_with("hls4ml, table-operator: "));
  }
  // What is refused is refused all the same.
  graph::NodeBuilder odd;
  odd.graph.outputs = {odd.node("Erf", {odd.quant(odd.input("x", {1, 3}), Tensor::scalar(0.5F), 0, 4)})};
  CHECK(
      says(why_not(graph::infer_shapes(odd.graph), {.profile = Profile::kHls4ml, .allow_approximate = true}),
           {"operator"}));
}

TEST_CASE("to QONNX: the integer view has scales of 1, and the factors around them") {
  for (const float step : {1.0F, 0.5F}) {
    graph::NodeBuilder net;
    const std::string w =
        net.quant(net.constant("w", Tensor::floats({3, 1}, std::vector<float>{step, -2 * step, 0})),
                  Tensor::scalar(step), 0, 4);
    net.graph.outputs = {
        net.node("MatMul", {net.quant(net.input("x", {1, 3}), Tensor::scalar(step), 0, 4), w})};
    const Graph made = to_qonnx(graph::infer_shapes(net.graph), {.integer_view = true});
    int quantizers = 0, muls = 0, divs = 0;
    for (const graph::Node& node : made.nodes) {
      muls += node.is("Mul");
      divs += node.is("Div");
      if (node.op != "Quant") continue;
      ++quantizers;
      CHECK(graph::constant_input(made, node, 1)->to_floats() == std::vector<float>{1});
      const auto constant = graph::ConstantValues(made).find(node.outputs[0]);
      if (constant) CHECK(constant->values == std::vector<double>{1, -2, 0});
    }
    CHECK(quantizers == 2);
    CHECK(muls == (step == 1 ? 0 : 2));
    CHECK(divs == (step == 1 ? 0 : 1));
  }
}

}  // namespace
}  // namespace crumb::exporting

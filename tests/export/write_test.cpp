// What is written in which operator set, and what a person is told of it.
#include "export/write.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "export/check_for_profile.h"
#include "export/hls4ml/config.h"
#include "export/project/scores.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/read.h"
#include "tests/graph/node_builder.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb::exporting {
namespace {

using crumb::testing::says;
using graph::Graph;
using graph::Tensor;
using S = std::string;

/// A dense layer behind what `quantizer` makes of the input.
Graph dense(const std::function<S(graph::NodeBuilder&, const S&)>& quantizer) {
  graph::NodeBuilder net;
  const S w = net.quant(net.constant("w", Tensor::floats({3, 2}, std::vector<float>{1, 2, 3, -1, 0, 2})),
                        Tensor::scalar(1.0F), 0, 4);
  net.graph.outputs = {net.node("MatMul", {quantizer(net, net.input("x", {1, 3})), w})};
  return graph::infer_shapes(net.graph);
}

Graph of_bits(float bits, float zero = 0, bool is_signed = true) {
  return dense(
      [&](auto& net, const S& x) { return net.quant(x, Tensor::scalar(0.5F), zero, bits, is_signed); });
}

Graph of_minifloat(float exponent, float mantissa, float bias, float largest) {
  return dense([&](auto& net, const S& x) {
    std::vector<S> inputs{x};
    int number = 0;
    for (const float parameter : {0.5F, exponent, mantissa, bias, largest})
      inputs.push_back(net.constant("p" + std::to_string(number++), Tensor::scalar(parameter)));
    return net.node("FloatQuant", inputs,
                    {{"has_inf", std::int64_t{0}},
                     {"has_nan", std::int64_t{0}},
                     {"has_subnormal", std::int64_t{1}},
                     {"saturation", std::int64_t{1}},
                     {"rounding_mode", S("ROUND")}},
                    graph::kQonnxDomain);
  });
}

struct Written {
  WriteReport report;
  Graph graph;
  S failure;
};

Written written(const Graph& graph, Form form, const WriteOptions& options = {}) {
  const testing::TempDir folder;
  const auto path = folder.path() / "made.onnx";
  try {
    WriteReport report = write(graph, form, path, options);
    return {std::move(report), graph::read_onnx(path), ""};
  } catch (const Error& error) {
    CHECK_FALSE(std::filesystem::exists(path));
    return {{}, {}, error.what()};
  }
}

TEST_CASE("write: forms by their names") {
  for (const Form form : {Form::kQonnx, Form::kQcdq, Form::kFloat, Form::kPacked})
    CHECK(form_named(name_of(form)) == form);
  CHECK_THROWS_WITH_AS(form_named("qcqd"), doctest::Contains("qcdq"), Error);
}

TEST_CASE("write: QCDQ in the least operator set that can say it, or what 13 lacks") {
  struct Case {
    Graph graph;
    std::int64_t opset;  // 0: there is none
  };
  const std::vector<Case> all{{of_bits(8), 13},
                              {of_bits(9), 21},
                              {of_bits(12, 0, false), 21},
                              {of_bits(16), 21},
                              {of_bits(17), 0},
                              {of_minifloat(4, 3, 7, 448), 19},
                              {of_minifloat(2, 1, 1, 6), 23},
                              {of_minifloat(3, 2, 3, 28), 0}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    const Written made = written(all[i].graph, Form::kQcdq);
    CHECK(made.failure.empty() == (all[i].opset > 0));
    if (all[i].opset == 0) {
      CHECK(says(made.failure, {"cannot be written as QCDQ in operator set 13"}));
    } else {
      CHECK(made.report.opset == all[i].opset);
      CHECK(made.graph.opset() == all[i].opset);
    }
    for (const std::int64_t opset : {13, 19, 21, 23, 25}) {  // where one is asked for, that or none
      const Written asked = written(all[i].graph, Form::kQcdq, {.opset = opset});
      CHECK(asked.failure.empty() == (all[i].opset > 0 && opset >= all[i].opset));
      if (asked.failure.empty()) CHECK(asked.graph.opset() == opset);
      if (!asked.failure.empty())
        CHECK(says(asked.failure, {("operator set " + std::to_string(opset)).c_str()}));
    }
  }
  CHECK(written(of_bits(4), Form::kQcdq, {.native_types = true}).report.opset == 21);
  CHECK(written(of_bits(4), Form::kQcdq, {.opset = 23, .native_types = true}).report.opset == 23);
  CHECK(written(of_bits(4), Form::kQcdq).report.opset == 13);
}

TEST_CASE("write: quantizers are counted, and what differs is told") {
  for (const Form form : {Form::kQonnx, Form::kQcdq}) {
    const Written made = written(of_bits(4), form);
    CHECK(made.failure == "");
    CHECK(made.report.weights == 1);
    CHECK(made.report.activations == 1);
    CHECK(made.report.notes.empty());
  }
  const Written folded = written(of_bits(4), Form::kFloat);
  CHECK(folded.report.weights == 0);
  CHECK(folded.report.activations == 0);
  REQUIRE(folded.report.notes.size() == 1);
  CHECK(says(folded.report.notes[0],
             {"quantizers of activations, written as the float arithmetic", "'Quant1'"}));

  const Written shifted = written(of_bits(4, 3), Form::kQcdq);
  REQUIRE(shifted.report.notes.size() == 1);
  CHECK(says(shifted.report.notes[0], {"exact ties may differ by one step at", "'Quant1'"}));
  const Graph up = dense([](auto& net, const S& x) {
    const S a = net.quant(x, Tensor::scalar(0.5F), 0, 4);
    net.graph.nodes.back().attributes["rounding_mode"] = S("CEIL");
    const S b = net.quant(a, Tensor::scalar(1.0F), 0, 4);
    net.graph.nodes.back().attributes["rounding_mode"] = S("FLOOR");
    return b;
  });
  CHECK(says(written(up, Form::kQcdq).failure, {"rounds by CEIL", "rounds by FLOOR"}));
  const Written arithmetic = written(up, Form::kQcdq, {.allow_arithmetic = true});
  REQUIRE(arithmetic.report.notes.size() == 1);
  CHECK(arithmetic.report.notes[0] == "written as float arithmetic: 'Quant1', 'Quant2'");
  const Graph bits = dense([](auto& net, const S& x) {
    const S c = net.constant("c", Tensor::floats({1, 3}, std::vector<float>{1, -1, 1}));
    return net.node("Add", {net.quant(x, Tensor::scalar(0.5F), 0, 4),
                            net.node("BipolarQuant", {c, net.constant("one", Tensor::scalar(1.0F))}, {},
                                     graph::kQonnxDomain)});
  });
  const Written bipolar = written(bits, Form::kQcdq);
  REQUIRE(bipolar.report.notes.size() == 1);
  CHECK(says(bipolar.report.notes[0],
             {"one bit, which only the metadata tell from three values", "'BipolarQuant"}));
}

TEST_CASE("write: for FINN it is told how many quantizers became thresholds") {
  for (const int count : {0, 1, 2}) {
    graph::NodeBuilder net;
    S y = net.input("x", {1, 3});
    net.graph.values[y].annotations["finn_datatype"] = "INT8";
    for (int i = 0; i < 2; ++i) {
      y = net.quant(y, Tensor::scalar(1.0F), 0, 4);
      if (i < count) net.graph.nodes.back().attributes["rounding_mode"] = S("CEIL");
    }
    net.graph.outputs = {y};
    const Written made = written(graph::infer_shapes(net.graph), Form::kQonnx, {.profile = Profile::kFinn});
    CHECK(made.failure == "");
    const auto thresholds = std::ranges::count(made.graph.nodes, S("MultiThreshold"), &graph::Node::op);
    CHECK(thresholds == count);
    CHECK(made.report.activations == 2);
    const auto note = std::ranges::find_if(
        made.report.notes, [](const S& text) { return text.find("written as thresholds") != S::npos; });
    CHECK((note != made.report.notes.end()) == (count > 0));
    if (count > 0)
      CHECK(note->starts_with(count == 1 ? "1 quantizer is written" : "2 quantizers are written"));
  }
}

TEST_CASE("scores: a last Softmax goes where nothing else takes what it makes") {
  graph::NodeBuilder net;
  const S x = net.input("x", {1, 3}), a = net.node("Relu", {x}), soft = net.node("Softmax", {a});
  net.graph.outputs = {soft};
  std::vector<S> scores;
  Graph made = without_last_softmax(net.graph, &scores);
  CHECK(made.outputs == std::vector{a});
  CHECK(scores == std::vector{a});
  CHECK(made.nodes.size() == 1);
  CHECK(without_last_softmax(net.graph).outputs == std::vector{a});
  net.graph.outputs = {soft, net.node("Relu", {soft})};
  scores.clear();
  CHECK(without_last_softmax(net.graph, &scores).outputs == net.graph.outputs);
  CHECK(scores.empty());
  net.graph.outputs = {a};
  CHECK(without_last_softmax(net.graph, &scores).outputs == net.graph.outputs);
  net.graph.nodes.pop_back();
  net.graph.outputs = {a, soft};
  CHECK(without_last_softmax(net.graph, &scores).outputs == std::vector{a, a});
}

TEST_CASE("profiles: a graph is checked as it would be written") {
  const Graph plain = of_bits(4), odd = of_bits(4, 0.5F);
  for (const char* profile : {"qonnx", "finn", "hls4ml"}) CHECK_NOTHROW(check_for_profile(plain, profile));
  CHECK_NOTHROW(check_for_profile(odd, "qonnx"));
  CHECK_THROWS_AS(check_for_profile(odd, "finn"), Error);
  CHECK_THROWS_AS(check_for_profile(odd, "hls4ml"), Error);
  CHECK_THROWS_AS(check_for_profile(plain, "onnxruntime"), Error);
  CHECK_THROWS_WITH_AS(check_for_profile(plain, "hls4m"), doctest::Contains("hls4ml"), Error);
  // A last Softmax is left out for hls4ml, and one before others is a table, whose numbers are others.
  graph::NodeBuilder net;
  const S soft = net.node("Softmax", {net.quant(net.input("x", {1, 3}), Tensor::scalar(0.5F), 0, 4)});
  net.graph.outputs = {soft};
  CHECK_NOTHROW(check_for_profile(graph::infer_shapes(net.graph), "hls4ml"));
  net.graph.outputs = {net.node("Relu", {soft})};
  CHECK_THROWS_AS(check_for_profile(graph::infer_shapes(net.graph), "hls4ml"), Error);
}

}  // namespace
}  // namespace crumb::exporting

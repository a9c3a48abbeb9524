// Every operator of the standards is decided upon, and what cannot be counted is said, with its reason.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "analysis/accumulator/check.h"
#include "graph/onnx/schemas.h"
#include "tests/analysis/accumulator/networks.h"
#include "tests/support/capture_copy.h"
#include "tests/support/samples.h"

namespace crumb::analysis {
namespace {

using testing::says;
using Ints = std::vector<std::int64_t>;

TEST_CASE(
    "the table has a rule, or the word that there are no products, for every operator of ONNX and QONNX") {
  std::size_t seen = 0;
  for (const auto& [domain, op] : graph::standard_operators()) {
    if (domain == "ai.onnx.preview.training") continue;  // steps of optimizers
    const graph::Node node{.name = "n", .op = op, .domain = domain};
    CAPTURE_COPY(domain + "::" + op);
    const bool has_body =
        node.op == "If" || node.op == "Loop" || node.op == "Scan" || node.op == "SequenceMap";
    const bool is_known = !why_unknown_operator(node);
    CHECK(is_known != has_body);
    ++seen;
  }
  CHECK(seen > 200);
  for (const char* op : {"Quant", "IntQuant", "BipolarQuant", "FloatQuant", "Trunc", "MultiThreshold",
                         "Im2Col", "MaxPoolNHWC", "QuantAvgPool2d", "XnorPopcountMatMul"}) {
    CHECK_FALSE(why_unknown_operator({.name = "n", .op = op, .domain = std::string(graph::kQonnxDomain)}));
  }
  CHECK(why_unknown_operator({.name = "n", .op = "MatMulNBits", .domain = "com.microsoft"}));
  CHECK(why_unknown_operator({.name = "n", .op = "QAttention", .domain = "com.microsoft"}));
  CHECK(why_unknown_operator({.name = "n", .op = "Convolve", .domain = ""}));
}

struct Made {
  std::string input(const char* name, const Ints& shape) { return net.input(name, shape); }
  std::string quantized(const char* name, const Ints& shape, float scale = 0.5F) {
    return net.quant(net.input(name, shape), graph::Tensor::scalar(scale), 0, 3);
  }
  Net net;
};

TEST_CASE("what cannot be counted is a row with its reason, and a failure where bits are asked of it") {
  const std::vector<std::pair<std::function<std::string(Made&)>, std::vector<const char*>>> all{
      {[](Made& m) {
         return m.net.node("MatMul", {m.input("a", {2, 3}), m.quantized("b", {3, 2})});
       },
       {"'a'", "--input-range"}},
      {[](Made& m) {
         return m.net.node("MatMul",
                           {m.net.node("Softmax", {m.quantized("a", {2, 3})}), m.quantized("b", {3, 2})});
       },
       {"(Softmax)"}},
      {[](Made& m) {
         const std::string b = m.quantized("b", {3, 2}), a = m.quantized("a", {2, 3});
         for (const char* one : {"a", "b"})
           m.net.graph.values[one].shape = graph::Shape{graph::Dim("n"), graph::Dim("k")};
         return m.net.node("MatMul", {a, b});
       },
       {"how many terms", "[n, k]"}},
      {[](Made& m) {
         const std::string scales =
             m.net.constant("scales", graph::Tensor::floats({1, 3}, std::vector<float>{1, 2, 3}));
         return m.net.node("MatMul",
                           {m.quantized("a", {2, 3}), m.net.node("Mul", {m.quantized("b", {4, 3}), scales})});
       },
       {"several scales"}},
      {[](Made& m) {
         return m.net.node("Einsum", {m.quantized("a", {2, 3}), m.quantized("b", {3, 4})},
                           {{"equation", std::string("ij,jk->i")}});
       },
       {"sums one operand alone over 'k'"}},
      {[](Made& m) {
         return m.net.node("Einsum", {m.quantized("a", {3, 3}), m.net.weight({3, 4}, 0.5F)},
                           {{"equation", std::string("ii,ik->k")}});
       },
       {"diagonal"}},
      {[](Made& m) {
         return m.net.node("DeformConv", {m.quantized("a", {1, 1, 5, 5}), m.net.weight({1, 1, 3, 3}, 0.5F),
                                          m.input("offset", {1, 18, 3, 3})});
       },
       {"between the elements"}},
      {[](Made& m) {
         return m.net.node("MatMulNBits", {m.quantized("a", {1, 4}), m.quantized("b", {4, 4})}, {},
                           "com.microsoft");
       },
       {"not known", "com.microsoft::MatMulNBits"}},
      {[](Made& m) {
         return m.net.node("Scan", {m.quantized("a", {1, 4})}, {{"body", graph::Opaque{"a graph"}}});
       },
       {"graph inside"}},
      {[](Made& m) {
         const std::string bits = m.net.constant("bits", graph::Tensor::ints({3, 2}, Ints{0, 1, 2, 0, 1, 1}));
         m.net.graph.values["x"] = {.type = graph::ElementType::kFloat,
                                    .shape = graph::Shape{2, 3},
                                    .annotations = {{"finn_datatype", "BINARY"}}};
         m.net.graph.inputs.push_back("x");
         return m.net.node("XnorPopcountMatMul", {"x", bits}, {}, graph::kQonnxDomain);
       },
       {"takes bits"}},
      {[](Made& m) {
         m.net.graph.values["zero"] = {.type = graph::ElementType::kFloat, .shape = graph::Shape{}};
         m.net.graph.inputs.push_back("zero");
         const std::string w = m.net.constant("w", graph::Tensor::ints({4, 2}, Ints{0, 1, 2, 0, 1, 1, 3, 4}));
         m.net.graph.values["x"] = {.type = graph::ElementType::kUint8, .shape = graph::Shape{2, 4}};
         m.net.graph.inputs.push_back("x");
         return m.net.node("MatMulInteger", {"x", w, "zero"});
       },
       {"zero point 'zero'"}},
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    Made made;
    made.net.graph.outputs = {all[i].first(made)};
    made.net.graph.nodes.back().name = "it";
    const graph::Graph graph = graph::infer_shapes(made.net.graph);
    const AccumulatorReport report = check_accumulators(graph);
    CHECK(report.failures.empty());
    REQUIRE(report.layers.size() == 1);
    CHECK_FALSE(report.layers[0].bits_needed);
    CHECK(report.layers[0].name == "it");
    const AccumulatorReport asked = check_accumulators(graph, {.ranges = {}, .bits = 32});
    REQUIRE(asked.failures.size() == 1);
    CHECK(says(asked.failures[0],
               {"layer 'it'", "is not covered", "32 bits", report.layers[0].reason.c_str()}));
    for (const char* part : all[i].second) CHECK(says(asked.failures[0], {part}));
  }
}

/// Two dense layers and a product of two computed tensors between them.
graph::Graph with_attention() {
  Net net;
  const std::string x = net.quant(net.input("x", {4, 6}), graph::Tensor::scalar(0.5F), 0, 4);
  const auto dense = [&](const char* name) {
    const std::string y = net.node("MatMul", {x, net.weight({6, 4}, 0.25F)});
    net.graph.nodes.back().name = name;
    return y;
  };
  const std::string q = dense("q"), k = dense("k");
  const std::string scores = net.node("MatMul", {net.quant(q, graph::Tensor::scalar(0.5F), 0, 3),
                                                 net.quant(k, graph::Tensor::scalar(0.25F), 0, 3, false)});
  net.graph.nodes.back().name = "scores";
  net.graph.outputs = {
      net.node("MatMul", {net.node("Softmax", {scores}), net.quant(k, graph::Tensor::scalar(1.0F), 0, 4)})};
  net.graph.nodes.back().name = "values";
  return graph::infer_shapes(net.graph);
}

TEST_CASE(
    "products of two computed tensors are rows; in a certified file they count where they are constrained: "
    "never") {
  const graph::Graph graph = with_attention();
  const AccumulatorReport report = check_accumulators(graph);
  REQUIRE(report.layers.size() == 4);
  const auto row = [&](const char* name) {
    return *std::ranges::find(report.layers, std::string(name), &AccumulatorRow::name);
  };
  CHECK(row("scores").input == IntegerRange{-4, 3});
  CHECK(row("scores").weight == IntegerRange{0, 7});
  CHECK(row("scores").worst == WorstSums{4 * 3 * 7, -4 * 4 * 7});
  CHECK(row("scores").bits_needed == 8);
  CHECK(says(row("values").reason, {"(Softmax)"}));
  CHECK(check_accumulators(graph, {.ranges = {}, .bits = 32}).failures.size() == 1);  // "values"
  const graph::Graph certified = with_certificates(graph, {{"q", {.bits = 12}}});
  CHECK(check_accumulators(certified, {.ranges = {}, .bits = 12}).failures.empty());
  CHECK_THROWS_WITH_AS(with_certificates(graph, {{"scores", {.bits = 12}}}),
                       doctest::Contains("no product of a constant weight is called 'scores'"), Error);
  graph::Graph claims = certified;
  const auto node = std::ranges::find(claims.nodes, std::string("scores"), &graph::Node::name);
  set_certificate(*node, {.bits = 32, .input = {-4, 3}, .worst = {{{84, -112}}}});
  CHECK(says(check_accumulators(claims).failures.at(0), {"'scores'", "no product of a constant weight"}));
}

TEST_CASE("a recurrent layer's two products: its inputs' is counted, its state's is not") {
  Net net;
  const std::string x = net.quant(net.input("x", {5, 1, 3}), graph::Tensor::scalar(0.5F), 1, 3);
  const std::string w = net.weight({1, 8, 3}, 0.5F), r = net.weight({1, 8, 2}, 0.5F);
  net.graph.outputs = {net.node("LSTM", {x, w, r}, {{"hidden_size", std::int64_t{2}}})};
  graph::Graph last = net.graph;  // the last state alone is wanted
  last.nodes.back().outputs = {"", last.outputs[0]};
  CHECK(check_accumulators(graph::infer_shapes(last)).layers.size() == 2);
  const graph::Graph graph = graph::infer_shapes(net.graph);
  const AccumulatorReport report = check_accumulators(graph);
  REQUIRE(report.layers.size() == 2);
  CHECK(report.layers[0].operands == "X W");
  CHECK(report.layers[0].channels == 8);
  CHECK(report.layers[0].length == 3);
  REQUIRE(report.layers[0].bits_needed);
  CHECK(report.layers[1].operands == "H R");
  CHECK(says(report.layers[1].reason, {"hidden state"}));
  CHECK(says(check_accumulators(graph, {.ranges = {}, .bits = 32}).failures.at(0),
             {"(LSTM, H R)", "not covered"}));
}

TEST_CASE("float weights are no rows; asked for bits, a file without certificates fails for them") {
  Net net;
  const std::string w =
      net.constant("w", graph::Tensor::floats({3, 2}, std::vector<float>{0.1F, 2, 3, 4, 5, 6}));
  net.graph.outputs = {
      net.node("MatMul", {net.quant(net.input("x", {1, 3}), graph::Tensor::scalar(0.5F), 0, 3), w})};
  const AccumulatorReport report = check_accumulators(net.graph);
  CHECK(report.layers.empty());
  CHECK(report.float_layers == 1);
  CHECK(report.failures.empty());
  CHECK(says(check_accumulators(net.graph, {.ranges = {}, .bits = 32}).failures.at(0),
             {"not covered", "no quantizer makes its weights"}));
}

TEST_CASE("a certificate that an operator between quantizer and layer makes wrong names that operator") {
  Net net;
  const std::string a = net.quant(net.input("a", {1, 2}), graph::Tensor::scalar(0.5F), 0, 4, false);
  const std::string b = net.quant(net.input("b", {1, 2}), graph::Tensor::scalar(0.5F), 0, 3);
  net.node("Concat", {a, b}, {{"axis", std::int64_t{1}}});
  net.graph.nodes.back().name = "widen";
  const std::string x = net.node("Reshape", {net.graph.nodes.back().outputs[0],
                                             net.constant("to", graph::Tensor::ints({2}, Ints{1, 4}))});
  net.graph.outputs = {net.node("MatMul", {x, net.weight({4, 2}, 0.5F)})};
  net.graph.nodes.back().name = "fc";
  graph::Graph graph = with_certificates(graph::infer_shapes(net.graph), {{"fc", {.bits = 20}}});
  CHECK(check_accumulators(graph).failures.empty());
  const auto node = std::ranges::find(graph.nodes, std::string("fc"), &graph::Node::name);
  graph::Certificate certificate = *certificate_of(*node).take();
  certificate.input = {0, 15};
  certificate.worst = *ProductLayers(graph).layer(0).worst_sums({0, 15}, 0);
  set_certificate(*node, certificate);
  const auto failures = check_accumulators(graph).failures;
  REQUIRE(failures.size() == 1);
  CHECK(failures[0] ==
        "layer 'fc' (MatMul): its inputs are -4..15 through node 'widen' (Concat), certified for 0..15");
}

}  // namespace
}  // namespace crumb::analysis

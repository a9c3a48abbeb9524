// Where quantizers go: constants, edges, groups, signs, biases, rules.
#include "graph/quantize/plan.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "base/files/text.h"
#include "graph/quantize/operators.h"
#include "tests/graph/quantize/build_graph.h"
#include "tests/support/samples.h"

namespace crumb::graph {
namespace {

using crumb::testing::says;
using testing::GraphBuilder;

Recipe recipe(const std::string& rest = "") {
  return parse_recipe("weights: int8\nactivations: uint8\n" + rest, "r.yaml");
}

const PlannedConstant* constant_of(const QuantPlan& plan, const std::string& name) {
  const auto found = std::ranges::find(plan.constants, name, &PlannedConstant::value);
  return found == plan.constants.end() ? nullptr : &*found;
}

const PlannedEdge* edge_of(const QuantPlan& plan, const std::string& name) {
  const auto found = std::ranges::find(plan.edges, name, &PlannedEdge::value);
  return found == plan.edges.end() ? nullptr : &*found;
}

std::string spec_at(const QuantPlan& plan, const std::string& name) {
  const PlannedEdge* edge = edge_of(plan, name);
  return edge ? edge->spec.to_string() : "";
}

std::string names_of(const QuantPlan& plan) {
  std::string text;
  for (const PlannedEdge& edge : plan.edges) text += (text.empty() ? "" : " ") + edge.value;
  return text;
}

std::string refusal(const Graph& graph, const Recipe& wanted) {
  try {
    (void)plan_quantizers(graph, wanted);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

/// conv - relu - conv - add of the relu's output - relu - pool - flatten - gemm.
GraphBuilder residual() {
  GraphBuilder b({1, 3, 8, 8});
  b.weight("stem.weight", {4, 3, 3, 3}).weight("stem.bias", {4}).weight("body.weight", {4, 4, 3, 3});
  b.weight("head.weight", {10, 4}).weight("head.bias", {10});
  const std::vector<std::int64_t> pads{1, 1, 1, 1};
  b.node("Conv", {"x", "stem.weight", "stem.bias"}, "a", {{"pads", pads}});
  b.node("Relu", {"a"}, "b");
  b.node("Conv", {"b", "body.weight"}, "c", {{"pads", pads}});
  b.node("Add", {"c", "b"}, "d");
  b.node("Relu", {"d"}, "e");
  b.node("GlobalAveragePool", {"e"}, "f");
  b.node("Flatten", {"f"}, "g");
  b.node("Gemm", {"g", "head.weight", "head.bias"}, "y", {{"transB", std::int64_t{1}}});
  return b;
}

TEST_CASE("plan: registers and scales of weights are those of the last rule that speaks of them") {
  const Graph graph = residual().done();
  const auto goal = [](const QuantPlan& plan, const std::string& name) {
    return to_string(constant_of(plan, name)->accumulator);
  };
  const auto scales = [](const QuantPlan& plan, const std::string& name) {
    return std::string(name_of(constant_of(plan, name)->scales));
  };
  const QuantPlan plain = plan_quantizers(graph, recipe());
  CHECK(goal(plain, "body.weight") == "none");
  CHECK(scales(plain, "body.weight") == "learned");

  const QuantPlan plan = plan_quantizers(graph, recipe(R"(accumulator: 16:a2q
scales: mean
rules:
  - {match: {op: Conv}, accumulator: {bits: 12}}
  - {match: {name: body}, scales: statistics}
  - {match: {name: stem}, accumulator: none, weights: int4}
  - {match: {name: nothing.there}, accumulator: 3, optional: true}
)"));
  CHECK(goal(plan, "head.weight") == "16:a2q");
  CHECK(goal(plan, "body.weight") == "12:a2q_plus");
  CHECK(goal(plan, "stem.weight") == "none");
  CHECK(goal(plan, "head.bias") == "none");
  CHECK(scales(plan, "head.weight") == "mean");
  CHECK(scales(plan, "body.weight") == "statistics");
  CHECK(constant_of(plan, "body.weight")->spec->to_string() == "int8:channel");
  CHECK(constant_of(plan, "stem.weight")->spec->to_string() == "int4:channel");
  CHECK(spec_at(plan, "b") == "uint8:tensor");

  CHECK(says(refusal(graph, recipe("rules: [{match: {name: bdoy}, accumulator: 16}]")), {"bdoy", "body"}));
  CHECK(says(refusal(graph, recipe("rules: [{match: {op: Relu}, scales: mean}]")), {"no weights"}));
}

TEST_CASE("plan: whose width is learned") {
  const Graph graph = residual().done();
  const auto learned = [&](const QuantPlan& plan, const char* name) {
    return constant_of(plan, name)->learned_bits;
  };
  const QuantPlan plan = plan_quantizers(graph, recipe(R"(learned_bits: 3bpw
rules:
  - {match: {name: stem}, weights: int8}
)"));
  CHECK_FALSE(learned(plan, "stem.weight"));
  CHECK(learned(plan, "body.weight"));
  const QuantPlan other = plan_quantizers(graph, recipe(R"(learned_bits: 3bpw
rules:
  - {match: {name: stem}, weights: int8, learned_bits: true}
  - {match: {name: body}, learned_bits: false}
)"));
  CHECK(learned(other, "stem.weight"));
  CHECK_FALSE(learned(other, "body.weight"));
}

TEST_CASE("plan: what is pruned") {
  const Graph graph = residual().done();
  const QuantPlan plan = plan_quantizers(graph, recipe(R"(prune: 0.8
rules:
  - {match: {name: body}, prune: "0.5:layer"}
  - {match: {name: stem}, skip: true}
)"));
  const auto goal = [](const QuantPlan& of, const std::string& name) {
    return to_string(constant_of(of, name)->prune);
  };
  CHECK(goal(plan, "head.weight") == "0.8:global");
  CHECK(goal(plan, "body.weight") == "0.5:layer");
  CHECK(goal(plan, "stem.weight") == "none");
  CHECK(goal(plan, "head.bias") == "none");
  // Weights that stay as they are are pruned too, unless a rule skips them.
  const QuantPlan kept = plan_quantizers(graph, parse_recipe(R"(weights: keep
prune: 0.8
rules:
  - {match: {name: stem}, skip: true}
  - {match: {name: stem}, prune: 0.1}
)",
                                                             "r"));
  CHECK_FALSE(constant_of(kept, "head.weight")->spec);
  CHECK(goal(kept, "head.weight") == "0.8:global");
  CHECK(goal(kept, "stem.weight") == "0.1:global");
  CHECK(says(refusal(graph, recipe("rules: [{match: {op: Relu}, prune: 0.5}]")), {"no weights"}));
}

TEST_CASE("plan: weights of every operator, on the axis where its outputs lie") {
  struct Row {
    std::string op;
    std::vector<std::int64_t> in, weight;
    std::map<std::string, Attribute> attributes;
    std::size_t axis;
  };
  const std::vector<Row> rows = {
      {"Conv", {1, 4, 5}, {6, 2, 3}, {{"group", std::int64_t{2}}}, 0},
      {"Conv", {1, 3, 5, 7}, {6, 3, 3, 1}, {}, 0},
      {"Conv", {1, 3, 5, 5, 5}, {2, 3, 1, 3, 3}, {}, 0},
      {"ConvTranspose", {1, 3, 5, 5}, {3, 7, 2, 2}, {}, 1},
      {"ConvTranspose", {1, 4, 5, 5}, {4, 3, 2, 2}, {{"group", std::int64_t{2}}}, 1},
      {"MatMul", {2, 5}, {5, 3}, {}, 1},
      {"MatMul", {2, 3, 5}, {5, 7}, {}, 1},
      {"MatMul", {2, 3, 5}, {2, 5, 7}, {}, 2},
      {"Gemm", {2, 5}, {5, 3}, {}, 1},
      {"Gemm", {2, 5}, {3, 5}, {{"transB", std::int64_t{1}}}, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.op);
    GraphBuilder b(row.in);
    b.weight("w", row.weight).node(row.op, {"x", "w"}, "y", row.attributes);
    const QuantPlan plan = plan_quantizers(b.done(), recipe());
    REQUIRE(constant_of(plan, "w"));
    CHECK(constant_of(plan, "w")->spec->to_string() == "int8:channel");
    CHECK(constant_of(plan, "w")->axes.output == row.axis);
    CHECK(names_of(plan) == "x");
    CHECK(spec_at(plan, "x") == "int8:tensor");  // the signed twin
  }
}

TEST_CASE("plan: a constant in front of a MatMul has its outputs in its rows") {
  GraphBuilder b({5, 3});
  b.weight("w", {7, 5}).node("MatMul", {"w", "x"}, "y");
  const QuantPlan plan = plan_quantizers(b.done(), recipe());
  CHECK(constant_of(plan, "w")->axes.output == 0);
  CHECK(names_of(plan) == "x");
}

TEST_CASE("plan: recurrent layers and embedding tables") {
  GraphBuilder b({4, 1, 3});
  b.weight("w", {2, 20, 3}).weight("r", {2, 20, 5}).weight("b", {2, 40});
  b.node("LSTM", {"x", "w", "r", "b"}, "y",
         {{"hidden_size", std::int64_t{5}}, {"direction", std::string("bidirectional")}});
  const QuantPlan plan = plan_quantizers(b.done(), recipe());
  CHECK(constant_of(plan, "w")->axes.output == 1);
  CHECK(constant_of(plan, "r")->axes.output == 1);
  CHECK_FALSE(constant_of(plan, "b")->spec);
  CHECK(names_of(plan) == "x");

  GraphBuilder e({2, 3});
  e.graph.values["x"].type = ElementType::kInt64;
  e.weight("table", {10, 4})
      .weight("w", {4, 2})
      .node("Gather", {"table", "x"}, "h")
      .node("MatMul", {"h", "w"}, "y");
  const QuantPlan words = plan_quantizers(e.done(), recipe("embeddings: int4\n"));
  CHECK(constant_of(words, "table")->spec->to_string() == "int4:channel");
  CHECK(constant_of(words, "table")->axes.output == 0);
  CHECK(names_of(words) == "h");
  CHECK_FALSE(constant_of(plan_quantizers(e.done(), recipe("embeddings: keep\n")), "table")->spec);
}

TEST_CASE("plan: a residual network has one quantizer an edge, and additions share a scale") {
  const QuantPlan plan = plan_quantizers(residual().done(), recipe());
  CHECK(names_of(plan) == "x b c e f");
  CHECK(spec_at(plan, "x") == "int8:tensor");
  CHECK(spec_at(plan, "b") == "uint8:tensor");
  CHECK(spec_at(plan, "c") == "int8:tensor");
  CHECK(spec_at(plan, "e") == "uint8:tensor");
  CHECK(spec_at(plan, "f") == "uint8:tensor");
  CHECK(edge_of(plan, "b")->scale_group == edge_of(plan, "c")->scale_group);
  CHECK(edge_of(plan, "b")->scale_group != edge_of(plan, "x")->scale_group);
  CHECK(edge_of(plan, "e")->scale_group != edge_of(plan, "f")->scale_group);
  CHECK(edge_of(plan, "c")->is_signed_twin);
  REQUIRE(plan.notes.size() == 1);
  CHECK(says(plan.notes[0], {"signed twin int8", "'x'", "'c'"}));
  CHECK(plan.needs_calibration());

  const QuantPlan all_signed =
      plan_quantizers(residual().done(), parse_recipe("weights: int8\nactivations: int8", "r"));
  CHECK(spec_at(all_signed, "b") == "int8:tensor");
  CHECK(all_signed.notes.empty());
}

TEST_CASE("plan: what only moves elements has no quantizer of its own") {
  GraphBuilder b({1, 3, 8, 8});
  b.weight("w", {4, 3, 3, 3}).weight("v", {2, 4, 1, 1}).weight("u", {4, 2, 1, 1}).constant("zero", {}, {0});
  b.graph.initializers["pads"] = Tensor::ints({8}, std::vector<std::int64_t>{0, 0, 1, 1, 0, 0, 1, 1});
  b.node("Conv", {"x", "w"}, "a").node("Relu", {"a"}, "b");
  b.node("MaxPool", {"b"}, "c", {{"kernel_shape", std::vector<std::int64_t>{2, 2}}});
  b.node("Pad", {"c", "pads", "zero"}, "d").node("Conv", {"d", "v"}, "e");
  b.node("Concat", {"b", "a"}, "f", {{"axis", std::int64_t{1}}});
  b.node("Sigmoid", {"e"}, "g").node("Identity", {"f"}, "y");
  const QuantPlan plan = plan_quantizers(b.done(), recipe());
  CHECK(names_of(plan) == "x a b");
  CHECK(edge_of(plan, "a")->scale_group == edge_of(plan, "b")->scale_group);
  CHECK(spec_at(plan, "a") == "int8:tensor");
  CHECK(spec_at(plan, "b") == "uint8:tensor");
}

TEST_CASE("plan: products of two activations, and masks that are no residual additions") {
  GraphBuilder b({1, 4, 6});
  b.weight("q", {6, 6}).weight("k", {6, 6}).weight("mask", {1, 1, 4});
  b.node("MatMul", {"x", "q"}, "a").node("MatMul", {"x", "k"}, "b");
  b.node("Transpose", {"b"}, "c", {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
  b.node("MatMul", {"a", "c"}, "d").node("Add", {"d", "mask"}, "e").node("Softmax", {"e"}, "f");
  b.node("MatMul", {"f", "a"}, "y");
  const QuantPlan plan = plan_quantizers(b.done(), recipe());
  CHECK(names_of(plan) == "x a b f");
  CHECK(spec_at(plan, "f") == "uint8:tensor");
  CHECK(spec_at(plan, "a") == "int8:tensor");
  const QuantPlan strict = plan_quantizers(b.done(), recipe(), {.unsigned_after_relu_only = true});
  CHECK(spec_at(strict, "f") == "int8:tensor");
}

TEST_CASE("plan: values that have a quantizer keep it, and weights that have one") {
  GraphBuilder b({1, 4});
  b.weight("w", {4, 3}).constant("s", {}, {0.5F}).constant("z", {}, {0}).constant("n", {}, {4});
  const std::map<std::string, Attribute> quant{
      {"signed", std::int64_t{1}}, {"narrow", std::int64_t{0}}, {"rounding_mode", std::string("ROUND")}};
  b.graph.opsets[std::string(kQonnxDomain)] = 1;
  b.node("Quant", {"x", "s", "z", "n"}, "a", quant, kQonnxDomain);
  b.node("Quant", {"w", "s", "z", "n"}, "b", quant, kQonnxDomain);
  b.node("MatMul", {"a", "b"}, "y");
  const QuantPlan plan = plan_quantizers(b.done(), recipe());
  CHECK(plan.edges.empty());
  CHECK_FALSE(constant_of(plan, "w")->spec);
  REQUIRE_FALSE(plan.notes.empty());
  CHECK(says(plan.notes[0], {"MatMul", "already"}));
}

TEST_CASE("plan: rules by name, operator and depthwise; later ones win") {
  GraphBuilder b({1, 4, 6, 6});
  b.weight("dw.weight", {4, 1, 3, 3}).weight("pw.weight", {8, 4, 1, 1}).weight("fc", {8, 2});
  b.node("Conv", {"x", "dw.weight"}, "a", {{"group", std::int64_t{4}}}).node("Relu", {"a"}, "b");
  b.node("Conv", {"b", "pw.weight"}, "c").node("Relu", {"c"}, "d");
  b.node("GlobalMaxPool", {"d"}, "e").node("Flatten", {"e"}, "f").node("MatMul", {"f", "fc"}, "y");
  const Graph graph = b.done();
  const auto plan = [&](const std::string& rules) {
    return plan_quantizers(graph, recipe("rules:\n" + rules));
  };

  QuantPlan made = plan("  - {match: {op: Conv, depthwise: true}, weights: int6, activations: uint4}\n");
  CHECK(constant_of(made, "dw.weight")->spec->to_string() == "int6:channel");
  CHECK(constant_of(made, "pw.weight")->spec->to_string() == "int8:channel");
  CHECK(spec_at(made, "x") == "int4:tensor");
  CHECK(spec_at(made, "b") == "uint8:tensor");

  made = plan(
      "  - {match: {op: [Conv]}, weights: int6}\n  - {match: {name: pw}, weights: int4, activations: "
      "uint2}\n");
  CHECK(constant_of(made, "dw.weight")->spec->to_string() == "int6:channel");
  CHECK(constant_of(made, "pw.weight")->spec->to_string() == "int4:channel");
  CHECK(spec_at(made, "b") == "uint2:tensor");

  made = plan("  - {match: {op: Linear}, weights: int3}\n");
  CHECK(constant_of(made, "fc")->spec->to_string() == "int3:channel");
  CHECK(constant_of(made, "pw.weight")->spec->to_string() == "int8:channel");

  made = plan("  - {match: {name: MatMul_y}, skip: true}\n");
  CHECK_FALSE(constant_of(made, "fc")->spec);
  CHECK(says(constant_of(made, "fc")->kept_because, {"excluded", "r.yaml"}));
  CHECK(names_of(made) == "x b");

  made = plan("  - {match: {op: Relu}, activations: uint3}\n");  // what it gives
  CHECK(spec_at(made, "b") == "uint3:tensor");
  CHECK(spec_at(made, "d") == "uint3:tensor");
  CHECK(spec_at(made, "x") == "int8:tensor");
  CHECK(names_of(plan("  - {match: {name: Relu_b}, activations: keep}\n")) == "x d");

  made = plan("  - {match: {name: x}, activations: int5}\n");
  CHECK(spec_at(made, "x") == "int5:tensor");

  made = plan_quantizers(graph, recipe("inputs: keep\n"));
  CHECK(names_of(made) == "b d");
  made = plan_quantizers(graph, recipe("inputs: uint8\n"));
  CHECK(spec_at(made, "x") == "uint8:tensor");  // as given
  CHECK_FALSE(edge_of(made, "x")->is_signed_twin);
}

TEST_CASE("plan: of two requests for one edge the later rule's holds, and it is said") {
  GraphBuilder b({1, 4});
  b.weight("u", {4, 3}).weight("v", {4, 3});
  b.node("MatMul", {"x", "u"}, "a").node("MatMul", {"x", "v"}, "c").node("Sub", {"a", "c"}, "y");
  const QuantPlan plan = plan_quantizers(b.done(), recipe("rules: [{match: {name: u}, activations: int4}]"));
  CHECK(spec_at(plan, "x") == "int4:tensor");
  CHECK(std::ranges::any_of(plan.notes, [](const std::string& note) {
    return says(note, {"'x'", "uint8:tensor", "int4:tensor"});
  }));
}

TEST_CASE("plan: rules that reach nothing, specs that do not fit") {
  const Graph graph = residual().done();
  CHECK(says(refusal(graph, recipe("rules: [{match: {name: haed}, weights: int4}]")),
             {"'haed'", "r.yaml", "line 3", "'head'", "optional: true"}));
  CHECK(refusal(graph, recipe("rules: [{match: {name: haed}, weights: int4, optional: true}]")).empty());
  CHECK(says(refusal(graph, recipe("rules: [{match: {op: LSTM}, skip: true}]")), {"matches none"}));
  CHECK(says(refusal(graph, recipe("rules: [{match: {op: Relu}, weights: int4}]")), {"reaches nothing"}));
  CHECK(says(refusal(graph, parse_recipe("weights: int4:group=7", "r")),
             {"3 tensors", "'stem.weight'", "Conv", "group of 7", "27 columns"}));
  CHECK(refusal(graph, parse_recipe("weights: int4:group=7:pad", "r")).empty());
}

TEST_CASE("plan: a constant that is taken along two axes") {
  GraphBuilder b({4, 4});
  b.weight("w", {4, 4}).node("MatMul", {"x", "w"}, "a");
  b.node("Gemm", {"a", "w"}, "y", {{"transB", std::int64_t{1}}});
  CHECK(says(refusal(b.done(), recipe()), {"'w'", "different axes", "one scale"}));
  CHECK(refusal(b.done(), parse_recipe("weights: int8:tensor", "r")).empty());
}

TEST_CASE("plan: any floating tensor by its full name, and role: any") {
  const Graph graph = residual().done();
  QuantPlan plan =
      plan_quantizers(graph, recipe("rules: [{match: {name: stem.bias}, weights: int8:tensor}]"));
  REQUIRE(constant_of(plan, "stem.bias")->spec);
  CHECK_FALSE(constant_of(plan, "stem.bias")->is_weight);
  CHECK_FALSE(constant_of(plan, "head.bias")->spec);
  plan =
      plan_quantizers(graph, recipe("rules: [{match: {name: '*.bias', role: any}, weights: int8:tensor}]"));
  CHECK(constant_of(plan, "head.bias")->spec);
  CHECK(says(refusal(graph, recipe("rules: [{match: {name: '*.bias'}, weights: int8}]")), {"role: any"}));
  // A layer's name stands for its weights, its input and its bias are named for themselves.
  for (const char* name : {"head", "he?d"}) {
    plan = plan_quantizers(
        graph, recipe("rules: [{match: {name: " + quote_text(name) + ", role: any}, weights: int4:tensor}]"));
    CHECK(constant_of(plan, "head.weight")->spec->to_string() == "int4:tensor");
    CHECK_FALSE(constant_of(plan, "head.bias")->spec);
    CHECK(spec_at(plan, "f") == "uint8:tensor");
  }
}

TEST_CASE("plan: biases stand at the scale of their input's edge") {
  const QuantPlan plan = plan_quantizers(residual().done(), recipe("biases: int32\n"));
  REQUIRE(plan.biases.size() == 2);
  CHECK(plan.biases[0].value == "stem.bias");
  CHECK(plan.biases[0].made_by == "a");
  CHECK(plan.biases[0].weight == "stem.weight");
  CHECK(plan.edges[plan.biases[0].edge].value == "x");
  CHECK(plan.edges[plan.biases[1].edge].value == "f");
  CHECK(says(refusal(residual().done(), parse_recipe("weights: int8\nbiases: int32", "r")), {"activations"}));
  CHECK(says(refusal(residual().done(),
                     parse_recipe("weights: int4:group=9:pad\nactivations: uint8\nbiases: int32", "r")),
             {"Conv", "group", "each output channel"}));
  const QuantPlan kept = plan_quantizers(residual().done(), recipe("biases: int8\ninputs: keep\n"));
  CHECK(kept.biases.size() == 1);
  CHECK(std::ranges::any_of(kept.notes, [](const auto& note) {
    return says(note, {"bias", "Conv_a", "no quantizer"});
  }));
}

TEST_CASE("plan: additions of other shapes and of integers are left alone") {
  GraphBuilder b({2, 3});
  b.weight("w", {3, 3}).node("MatMul", {"x", "w"}, "a");
  b.node("ReduceSum", {"a"}, "s").node("Add", {"a", "s"}, "c").node("Shape", {"c"}, "h");
  b.node("Add", {"h", "h"}, "i").node("Concat", {"i", "h"}, "j", {{"axis", std::int64_t{0}}});
  b.graph.outputs = {"c", "j"};
  CHECK(names_of(plan_quantizers(b.done(), recipe())) == "x");
}

}  // namespace
}  // namespace crumb::graph

// Passes: what each changes, and that what it does not understand stays. That outputs stay the same is checked by
// executing before and after, in tests/cli/test_cli_passes.py.
#include "graph/passes/passes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/shape_faults.h"
#include "tests/graph/passes/builder.h"

namespace crumb::graph {
namespace {

TEST_CASE("every pass has a name of its own, says what it does, and is found") {
  std::set<std::string_view> names;
  for (const Pass& pass : all_passes()) {
    CHECK(names.insert(pass.name).second);
    CHECK_FALSE(pass.what.empty());
    CHECK(find_pass(pass.name) == &pass);
  }
  CHECK(find_pass("no-such-pass") == nullptr);
}

TEST_CASE(
    "what shape inference finds is said, with the node's name, and the rest of the graph keeps its shapes") {
  for (const std::int64_t rows : {3, 4}) {  // of the constant, where x has 3 columns
    CAPTURE(rows);
    Builder b({2, 3});
    b.constant("w", {rows, 5}, std::vector<float>(static_cast<std::size_t>(rows * 5), 1.0F));
    b.node("Relu", {"x"}, {"a"});
    b.node("MatMul", {"a", "w"}, {"m"});
    b.node("Relu", {"m"}, {"y"});
    const std::string said = shape_faults(b.graph);
    const Graph inferred = infer_shapes(b.graph);
    CHECK(inferred.shape_of("a") == Shape{2, 3});
    if (rows == 3) {
      CHECK(said == "");
      CHECK(inferred.shape_of("y") == Shape{2, 5});
    } else {
      CHECK(said.find("MatMul_m") != std::string::npos);
      CHECK(said.find("Incompatible dimensions") != std::string::npos);
      CHECK_FALSE(inferred.shape_of("y").has_value());
    }
  }
}

TEST_CASE(
    "what the file says against what is inferred is found at inputs, outputs and operators' attributes") {
  Builder rank({2, 3});
  rank.node("Transpose", {"x"}, {"y"}, {{"perm", std::vector<std::int64_t>{0, 1, 2}}});
  CHECK(shape_faults(rank.graph).find("Transpose_y") != std::string::npos);
  Builder output({2, 3});
  output.node("Relu", {"x"}, {"y"});
  output.graph.values["y"] = float_value({2, 4});
  CHECK(shape_faults(output.graph) != "");
  output.graph.values["y"] = float_value({2, 3});
  CHECK(shape_faults(output.graph) == "");
}

TEST_CASE("every pass takes an empty graph, and one that it has nothing to do in") {
  for (const Pass& pass : all_passes()) {
    if (pass.needs_engine) continue;
    CAPTURE(pass.name);
    CHECK(pass.run(Graph{.opsets = {{"", 13}}}, nullptr).nodes.empty());
    Builder b({2, 3});
    b.node("Relu", {"x"}, {"a"});
    b.node("Foo", {"a"}, {"y"}, {}, "somebody.else");
    const Graph made = pass.run(b.graph, nullptr);
    CHECK(b.ops(made) == "Relu Foo");
    CHECK(made.inputs == b.graph.inputs);
    CHECK(made.outputs == b.graph.outputs);
  }
}

TEST_CASE("identities go, what only looks like one stays") {
  Builder b({2, 3});
  b.constant("zero", {}, {0});
  b.constant("wide", {4, 2, 3}, std::vector<float>(24, 0));
  b.node("Identity", {"x"}, {"a"});
  b.node("Add", {"a", "zero"}, {"b"});
  b.node("Transpose", {"b"}, {"c"}, {{"perm", std::vector<std::int64_t>{0, 1}}});
  b.node("Relu", {"c"}, {"d"});
  b.node("Add", {"d", "wide"}, {"y"});  // it broadcasts
  const Graph made = remove_identities(b.graph);
  CHECK(b.ops(made) == "Relu Add");
  CHECK(made.nodes[0].inputs[0] == "x");
}

TEST_CASE("an identity between input and output stays, because both keep their names") {
  Builder b({2});
  b.node("Identity", {"x"}, {"y"});
  CHECK(b.ops(remove_identities(b.graph)) == "Identity");
}

/// What a value is, in terms of the graph's inputs, identities left out.
std::string meaning(const Graph& graph, const std::string& value) {
  for (const Node& node : graph.nodes) {
    if (node.outputs[0] != value) continue;
    if (node.op == "Identity") return meaning(graph, node.inputs[0]);
    std::string text = node.op + "(";
    for (const std::string& input : node.inputs) text += meaning(graph, input) + ",";
    return text + ")";
  }
  return value;
}

TEST_CASE("outputs keep name and meaning, and identities stay only between two names that stay") {
  std::mt19937 engine(20261122);
  const auto draw = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(engine);
  };
  std::size_t gone = 0, stay = 0;
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    Builder b({2});
    std::vector<std::string> values{"x"}, made;
    for (std::size_t i = 0, count = 1 + draw(12); i < count; ++i) {
      const std::string value = "v" + std::to_string(i);
      const char* op = std::array{"Identity", "Identity", "Relu", "Add"}[draw(4)];
      std::vector<std::string> inputs{values[draw(values.size())]};
      if (op == std::string_view("Add")) inputs.push_back(values[draw(values.size())]);
      b.node(op, inputs, {value});
      values.push_back(value);
      made.push_back(value);
    }
    b.graph.outputs.clear();
    for (const std::string& value : made)
      if (value == made.back() || draw(4) == 0) b.graph.outputs.push_back(value);
    std::shuffle(b.graph.nodes.begin(), b.graph.nodes.end(), engine);
    const Graph after = remove_identities(b.graph);
    CHECK(after.outputs == b.graph.outputs);
    const auto is_output = [&](const std::string& value) {
      return std::ranges::find(after.outputs, value) != after.outputs.end();
    };
    for (const std::string& value : after.outputs) CHECK(meaning(after, value) == meaning(b.graph, value));
    for (const Node& node : after.nodes) {
      if (node.op != "Identity") continue;
      ++stay;
      CHECK(is_output(node.outputs[0]));
      CHECK((is_output(node.inputs[0]) || node.inputs[0] == "x"));
    }
    gone += b.graph.nodes.size() - after.nodes.size();
  }
  CHECK(gone > 3000);
  CHECK(stay > 300);
}

TEST_CASE("Gemm and MatMul with Add are each other's way of writing") {
  Builder b({2, 3});
  b.constant("w", {4, 3}, std::vector<float>(12, 0.5F));
  b.constant("c", {4}, {1, 2, 3, 4});
  b.node("Gemm", {"x", "w", "c"}, {"y"}, {{"transB", std::int64_t{1}}});
  const Graph split = gemm_to_matmul(b.graph);
  CHECK(b.ops(split) == "MatMul Add");
  CHECK(split.constant(split.nodes[0].inputs[1])->shape() == std::vector<std::int64_t>{3, 4});
  const Graph joined = matmul_to_gemm(split);
  CHECK(b.ops(joined) == "Gemm");
  CHECK(joined.outputs == std::vector<std::string>{"y"});
}

TEST_CASE("a convolution's bias becomes an Add of its rank") {
  Builder b({1, 2, 5, 5});
  b.constant("w", {3, 2, 3, 3}, std::vector<float>(54, 0.5F));
  b.constant("c", {3}, {1, 2, 3});
  b.node("Conv", {"x", "w", "c"}, {"y"});
  const Graph made = extract_conv_bias(b.graph);
  CHECK(b.ops(made) == "Conv Add");
  CHECK(made.constant(made.nodes[1].inputs[1])->shape() == std::vector<std::int64_t>{1, 3, 1, 1});
  CHECK_FALSE(made.nodes[0].has_input(2));
}

TEST_CASE("the quantizer of a convolution's bias makes a column itself") {
  for (const bool per_channel : {false, true}) {
    CAPTURE(per_channel);
    Builder b({1, 2, 5, 5});
    b.constant("w", {3, 2, 3, 3}, std::vector<float>(54, 0.5F));
    b.constant("c", {3}, {1, -2, 3});
    b.constant("s", per_channel ? std::vector<std::int64_t>{3} : std::vector<std::int64_t>{},
               per_channel ? std::vector<float>{0.5F, 0.25F, 1} : std::vector<float>{0.5F});
    b.constant("z", {}, {0});
    b.constant("n", {}, {8});
    b.node("Quant", {"c", "s", "z", "n"}, {"q"}, {{"signed", std::int64_t{1}}, {"narrow", std::int64_t{0}}},
           kQonnxDomain);
    b.node("Conv", {"x", "w", "q"}, {"y"});
    const Graph made = tidy(extract_conv_bias(b.graph));
    CHECK(b.ops(made).find("Reshape") == std::string::npos);
    const auto quant = std::ranges::find_if(made.nodes, is_quantizer);
    REQUIRE(quant != made.nodes.end());
    CHECK(made.constant(quant->inputs[0])->shape() == std::vector<std::int64_t>{1, 3, 1, 1});
    if (per_channel) CHECK(made.constant(quant->inputs[1])->shape() == std::vector<std::int64_t>{1, 3, 1, 1});
  }
}

TEST_CASE("batch norm is folded into weights of its own only") {
  const auto build = [](bool shared) {
    Builder b({1, 2, 5, 5});
    b.constant("w", {2, 2, 3, 3}, std::vector<float>(36, 0.5F));
    for (const char* name : {"scale", "bias", "mean", "var"}) b.constant(name, {2}, {0.5F, 2});
    b.node("Conv", {"x", "w"}, {"a"});
    b.node("BatchNormalization", {"a", "scale", "bias", "mean", "var"}, {shared ? "b" : "y"});
    if (shared) b.node("Conv", {"b", "w"}, {"y"});
    return b;
  };
  CHECK(build(false).ops(fold_batch_norm(build(false).graph)) == "Conv");
  const Graph shared = fold_batch_norm(build(true).graph);
  CHECK(build(true).ops(shared).ends_with("Conv"));
}

TEST_CASE("a transpose of a quantized constant goes into it, and its scales move along") {
  Builder b({1, 3});
  b.constant("w", {4, 3}, std::vector<float>(12, 0.5F));
  b.constant("s", {4, 1}, {1, 2, 3, 4});
  b.constant("z", {}, {0});
  b.constant("n", {}, {4});
  b.node("Quant", {"w", "s", "z", "n"}, {"q"}, {{"signed", std::int64_t{1}}, {"narrow", std::int64_t{0}}},
         kQonnxDomain);
  b.node("Transpose", {"q"}, {"t"}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  b.node("MatMul", {"x", "t"}, {"y"});
  const Graph made = fold_transposes(b.graph);
  CHECK(b.ops(made) == "Quant MatMul");
  CHECK(made.constant(made.nodes[0].inputs[0])->shape() == std::vector<std::int64_t>{3, 4});
  CHECK(made.constant(made.nodes[0].inputs[1])->shape() == std::vector<std::int64_t>{1, 4});
}

TEST_CASE("readable names are unique, and inputs and outputs keep good ones") {
  Builder b({2});
  b.graph.inputs = {"x", "0"};
  b.graph.values["0"] = float_value({2});
  b.constant("/a::b.weight", {2}, {1, 2});
  b.node("Add", {"x", "/a::b.weight"}, {"/m/1"});
  b.node("Add", {"/m/1", "0"}, {"y"});
  const Graph made = readable_names(b.graph);
  CHECK(made.inputs == std::vector<std::string>{"x", "global_in"});
  CHECK(made.outputs == std::vector<std::string>{"y"});
  CHECK(made.nodes[0].name == "Add_0");
  CHECK(made.nodes[0].inputs[1] == "Add_0_param1");
  CHECK(made.nodes[0].outputs[0] == "Add_0_out0");
  CHECK(made.nodes[1].inputs == std::vector<std::string>{"Add_0_out0", "global_in"});
}

TEST_CASE("tidy sorts, and drops what no output needs") {
  Builder b({2});
  b.constant("unused", {1}, {1});
  b.node("Relu", {"a"}, {"y"});
  b.node("Neg", {"x"}, {"a"});
  b.node("Exp", {"x"}, {"nobody"});
  const Graph made = tidy(sorted(b.graph));
  CHECK(b.ops(made) == "Neg Relu");
  CHECK(made.initializers.empty());
}

TEST_CASE("odd nodes that no file should hold are left alone") {
  Builder b({2, 3});
  b.constant("zero", {}, {0});
  b.constant("one", {2}, {1, 2});
  b.node("Identity", {""}, {"a"});
  b.node("Add", {"zero"}, {"b"});
  b.node("Identity", {"x"}, {"c", "d"});
  b.node("Conv", {"x", "zero"}, {"e"});
  b.node("BatchNormalization", {"e", "one", "one", "one", "one"}, {"f"});
  b.node("MatMul", {"x"}, {"g"});
  b.node("Add", {"g"}, {"h"});
  b.graph.outputs = {"a", "b", "c", "d", "f", "h"};
  for (const Pass& pass : all_passes()) {
    if (pass.needs_engine || pass.name.starts_with("opset")) continue;
    CAPTURE(pass.name);
    CHECK(pass.run(b.graph, nullptr).nodes.size() == b.graph.nodes.size());
  }
}

}  // namespace
}  // namespace crumb::graph

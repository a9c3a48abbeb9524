// Operator sets: what each operator is written as. That outputs stay is checked by executing, in test_opset_models.py.
#include "graph/passes/opset.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "graph/edit.h"
#include "graph/onnx/schemas.h"
#include "graph/onnx/wire/domains.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;

/// One node from x to y, at an operator set.
Graph network(std::int64_t opset, Node node, const Shape& shape = {2, 3, 4}) {
  Graph graph{.inputs = {"x"}, .outputs = {"y"}, .opsets = {{"", opset}}};
  graph.values["x"] = {.type = ElementType::kFloat, .shape = shape};
  node.name = "it";
  node.version = opset;
  if (node.outputs.empty()) node.outputs = {"y"};
  graph.nodes = {std::move(node)};
  return graph;
}

void give(Graph& graph, const std::string& name, Tensor tensor) {
  graph.values[name] = value_of(tensor);
  graph.initializers[name] = std::move(tensor);
}

std::string refusal(const Graph& graph, std::int64_t target) {
  try {
    with_opset(graph, target);
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

std::string ops(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) text += (text.empty() ? "" : " ") + node.op;
  return text;
}

TEST_CASE("attributes become inputs and inputs attributes") {
  const Graph old = network(9, {.op = "Unsqueeze", .inputs = {"x"}, .attributes = {{"axes", Ints{0, 2}}}});
  const Graph made = with_opset(old, 13);
  CHECK(made.opset() == 13);
  CHECK(made.nodes[0].version == 13);
  CHECK(made.nodes[0].attributes.empty());
  CHECK(constant_input(made, made.nodes[0], 1)->to_ints() == Ints{0, 2});
  const Graph back = with_opset(made, 9);
  CHECK(back.nodes[0].attributes == old.nodes[0].attributes);
  CHECK(back.initializers.empty());
}

TEST_CASE("what an attribute says that is the default goes, and anything else is refused") {
  CHECK(with_opset(network(19, {.op = "AveragePool",
                                .inputs = {"x"},
                                .attributes = {{"kernel_shape", Ints{2}}, {"ceil_mode", std::int64_t{0}}}}),
                   9)
            .nodes[0]
            .attributes.size() == 1);
  const std::string why = refusal(
      network(14, {.op = "RNN", .inputs = {"x", "x", "x"}, .attributes = {{"layout", std::int64_t{1}}}}), 13);
  CHECK(why.find("'it' (RNN)") != std::string::npos);
  CHECK(why.find("'layout'") != std::string::npos);
}

TEST_CASE("a recurrent layer moves whichever of its outputs are named") {
  for (const char* op : {"LSTM", "GRU", "RNN"}) {
    CAPTURE(op);
    for (const auto& outputs : {std::vector<std::string>{"y"}, {"", "y"}, {"all", "y"}}) {
      Graph graph = network(17, {.op = op,
                                 .inputs = {"x", "w", "r"},
                                 .outputs = outputs,
                                 .attributes = {{"hidden_size", std::int64_t{2}}}});
      const std::int64_t gates = std::string(op) == "LSTM" ? 4 : std::string(op) == "GRU" ? 3 : 1;
      give(graph, "w",
           Tensor::floats({1, 2 * gates, 4}, std::vector<float>(static_cast<std::size_t>(8 * gates))));
      give(graph, "r",
           Tensor::floats({1, 2 * gates, 2}, std::vector<float>(static_cast<std::size_t>(4 * gates))));
      const Graph made = with_opset(graph, 13);
      CHECK(made.opset() == 13);
      CHECK(made.nodes[0].outputs == outputs);
    }
  }
  CHECK(refusal(network(17, {.op = "TopK", .inputs = {"x", "k"}, .outputs = {"", "y"}}), 9)
            .find("has no output") != std::string::npos);
}

TEST_CASE("every misfit is in one error") {
  Graph graph = network(18, {.op = "BitwiseNot", .inputs = {"x"}, .outputs = {"a"}});
  graph.values["x"].type = ElementType::kInt32;
  graph.nodes.push_back(
      {.name = "too", .op = "BitwiseNot", .version = 18, .inputs = {"a"}, .outputs = {"y"}});
  const std::string why = refusal(graph, 13);
  CHECK(why.find("'it'") != std::string::npos);
  CHECK(why.find("'too'") != std::string::npos);
  CHECK(least_opset(graph) == 18);
}

TEST_CASE("types that an operator set does not take are refused") {
  Graph graph = network(14, {.op = "Relu", .inputs = {"x"}});
  graph.values["x"].type = ElementType::kInt32;
  CHECK(refusal(graph, 13).find("takes int32") != std::string::npos);
  CHECK(least_opset(graph) == 14);
}

TEST_CASE("operators that came later go by simpler ones") {
  Graph norm = network(17, {.op = "LayerNormalization", .inputs = {"x", "s"}});
  give(norm, "s", Tensor::floats({4}, std::vector<float>(4, 1.0F)));
  CHECK(ops(with_opset(norm, 13)) == "ReduceMean Sub Mul ReduceMean Add Sqrt Div Mul");
  CHECK(ops(with_opset(norm, 17)) == "LayerNormalization");
  CHECK(least_opset(norm) == 13);
  CHECK(with_opset(norm, 13).nodes.back().outputs[0] == "y");
  CHECK(ops(with_opset(network(20, {.op = "Gelu", .inputs = {"x"}}), 13)) == "Div Erf Add Mul Mul");
}

TEST_CASE("a softmax of several axes at once is one of rows, and one of a middle axis is turned") {
  const Graph old = network(11, {.op = "Softmax", .inputs = {"x"}});  // axis 1
  CHECK(ops(with_opset(old, 13)) == "Shape Flatten Softmax Reshape");
  const Graph now =
      network(13, {.op = "Softmax", .inputs = {"x"}, .attributes = {{"axis", std::int64_t{1}}}});
  CHECK(ops(with_opset(now, 11)) == "Transpose Softmax Transpose");
  CHECK(ops(with_opset(network(13, {.op = "Softmax", .inputs = {"x"}}), 11)) == "Softmax");
}

TEST_CASE("random graphs of versions that are no versions are refused") {
  const Graph graph = network(13, {.op = "Relu", .inputs = {"x"}});
  CHECK_THROWS_AS(with_opset(graph, 0), Error);
  CHECK_THROWS_AS(with_opset(graph, kNewestOpset + 1), Error);
  CHECK_THROWS_AS(least_opset(graph, 1000), Error);
  CHECK(refusal(network(13, {.op = "NoSuchThing", .inputs = {"x"}}), 13).find("no operator") !=
        std::string::npos);
}

TEST_CASE("other domains keep their versions") {
  Graph graph = network(11, {.op = "Relu", .inputs = {"x"}, .outputs = {"a"}});
  graph.opsets[std::string(kQonnxDomain)] = 1;
  give(graph, "one", Tensor::scalar(1.0F));
  graph.nodes.push_back({.name = "q",
                         .op = "BipolarQuant",
                         .domain = std::string(kQonnxDomain),
                         .version = 1,
                         .inputs = {"a", "one"},
                         .outputs = {"y"}});
  const Graph made = with_opset(graph, 21);
  CHECK(made.nodes[1].version == 1);
  CHECK(made.opset(kQonnxDomain) == 1);
}

}  // namespace
}  // namespace crumb::graph

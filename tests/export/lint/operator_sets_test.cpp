// Operator sets: which types and inputs need which.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "export/lint/lint.h"
#include "export/lint/subject.h"
#include "tests/export/lint/findings.h"
#include "tests/graph/node_builder.h"
#include "tests/support/capture_copy.h"
#include "tests/support/samples.h"

namespace crumb::exporting {
namespace {

using crumb::testing::says;
using Ints = std::vector<std::int64_t>;

TEST_CASE("subject: one number, shapes filled up, and numbers as they are said") {
  const auto floats = [](std::vector<float> values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return Tensor::floats({count}, values);
  };
  for (const auto& [tensor, value] :
       std::vector<std::pair<Tensor, std::optional<float>>>{{Tensor::scalar(2.0F), 2.0F},
                                                            {floats({2, 2, 2}), 2.0F},
                                                            {floats({2, 2, 3}), {}},
                                                            {floats({3, 2, 2}), {}},
                                                            {floats({}), {}},
                                                            {Tensor::ints({2}, Ints{7, 7}), 7.0F},
                                                            {Tensor::ints({2}, Ints{7, 8}), {}}})
    CHECK(uniform(&tensor) == value);
  CHECK_FALSE(uniform(nullptr));
  CHECK(filled_up({2, 3}, 4) == Ints{1, 1, 2, 3});
  CHECK(filled_up({2, 3}, 2) == Ints{2, 3});
  CHECK(filled_up({2, 3}, 1) == Ints{2, 3});
  CHECK(filled_up({}, 2) == Ints{1, 1});
  CHECK(number_text(0.5) == "0.5");
  CHECK(number_text(0.1F) == "0.1");
  CHECK(number_text(0.1) == "0.1");
  CHECK(number_text(3) == "3");
  CHECK(number_text(16777217) == "16777217");
}

TEST_CASE("lint: operator sets that QuantizeLinear's and Clip's types need") {
  using enum graph::ElementType;
  for (const auto& [type, needed] :
       std::vector<std::pair<graph::ElementType, std::int64_t>>{{kInt8, 10},
                                                                {kUint8, 10},
                                                                {kInt16, 21},
                                                                {kUint16, 21},
                                                                {kInt4, 21},
                                                                {kUint4, 21},
                                                                {kInt2, 25},
                                                                {kUint2, 25},
                                                                {kFloat8E4M3fn, 19},
                                                                {kFloat8E4M3fnuz, 19},
                                                                {kFloat8E5M2, 19},
                                                                {kFloat8E5M2fnuz, 19},
                                                                {kFloat4E2M1, 23}}) {
    for (const char* op : {"QuantizeLinear", "DequantizeLinear"}) {
      for (const std::int64_t version : {needed - 1, needed, needed + 1}) {
        CAPTURE_COPY(static_cast<int>(type));
        CAPTURE(version);
        graph::NodeBuilder net;
        const bool makes = std::string(op) == "QuantizeLinear";
        const std::string scale = net.constant("s", Tensor::scalar(0.5F)), x = net.input("x", {2});
        if (!makes) net.graph.values[x].type = type;
        const std::string y = net.node(op, {x, scale});
        net.graph.values[y] = {.type = makes ? type : kFloat, .shape = graph::Shape{2}};
        net.graph.nodes.back().version = version;
        net.graph.outputs = {y};
        const Graph& graph = net.graph;
        const Subject subject(graph, Profile::kOnnxruntime);
        std::vector<Finding> found;
        const auto rule = std::ranges::find(rules(), "qdq-opset", &Rule::name);
        Report report(*rule, found);
        rule->check(subject, report);
        CHECK(found.empty() == (version >= needed));
        if (!found.empty())
          CHECK(says(found[0].message, {("needs operator set " + std::to_string(needed)).c_str()}));
      }
    }
  }
}

TEST_CASE("lint: QONNX's version and Trunc's inputs, in all combinations") {
  struct Said {
    bool node = false, is_node_fixable = false, opset = false, is_opset_fixable = false;
  };
  // Inputs of the Truncs in the graph; what is said where the file has version 1, 2 and 3.
  const std::vector<std::pair<std::vector<int>, std::vector<Said>>> all{
      {{}, {{}, {.opset = true, .is_opset_fixable = true}, {.opset = true, .is_opset_fixable = true}}},
      {{5}, {{}, {.node = true, .is_node_fixable = true}, {.opset = true}}},
      {{6}, {{.node = true, .is_node_fixable = true}, {}, {.opset = true}}},
      {{4}, {{.node = true}, {.node = true}, {.opset = true}}},
      {{7}, {{.node = true}, {.node = true}, {.opset = true}}},
      {{5, 6}, {{.node = true}, {.node = true}, {.opset = true}}},
      {{5, 5}, {{}, {.node = true, .is_node_fixable = true}, {.opset = true}}},
  };
  for (const auto& [truncs, wanted] : all) {
    for (std::size_t version = 1; version <= 3; ++version) {
      CAPTURE_COPY(truncs);
      CAPTURE(version);
      graph::NodeBuilder net;
      net.graph.opsets[std::string(kQonnxDomain)] = static_cast<std::int64_t>(version);
      std::string x = net.quant(net.input("x", {1, 3}), Tensor::scalar(0.5F), 0, 4);
      for (const int inputs : truncs) {
        std::vector<std::string> all_inputs{x};
        for (int i = 1; i < inputs; ++i)
          all_inputs.push_back(
              net.constant("p" + std::to_string(net.graph.initializers.size()), Tensor::scalar(1.0F)));
        x = net.node("Trunc", all_inputs, {{"rounding_mode", std::string("FLOOR")}}, kQonnxDomain);
      }
      for (Node& node : net.graph.nodes) node.version = static_cast<std::int64_t>(version);
      net.graph.outputs = {x};
      const auto found = of_rule(net.graph, Profile::kQonnx, "qonnx-opset");
      const Said& said = wanted[version - 1];
      const auto is_opset = [](const Finding& one) { return one.node == "opset_import"; };
      const auto opset = std::ranges::find_if(found, is_opset),
                 node = std::ranges::find_if_not(found, is_opset);
      CHECK((opset != found.end()) == said.opset);
      CHECK((node != found.end()) == said.node);
      if (opset != found.end()) CHECK(opset->fixable == said.is_opset_fixable);
      if (node != found.end()) CHECK(node->fixable == said.is_node_fixable);
    }
  }
  // A version of operators that are not there is no matter.
  graph::NodeBuilder net;
  net.graph.opsets[std::string(kQonnxDomain)] = 2;
  net.graph.outputs = {net.node("Relu", {net.input("x", {1, 3})})};
  CHECK(of_rule(net.graph, Profile::kQonnx, "qonnx-opset").empty());
}

}  // namespace
}  // namespace crumb::exporting

// What of QuantizeLinear, Clip, Cast and DequantizeLinear is one quantizer, and what of the file is kept.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "export/qcdq/from_qcdq.h"
#include "export/qcdq/to_qcdq.h"
#include "graph/onnx/infer_shapes.h"
#include "tests/graph/node_builder.h"
#include "tests/support/samples.h"

namespace crumb::exporting {
namespace {

using graph::Graph;
using graph::Node;
using graph::Tensor;

using crumb::testing::says;
using graph::ElementType;

struct Net : graph::NodeBuilder {
  /// x -> QuantizeLinear to `type` -> what stands between -> DequantizeLinear.
  std::string quantized(ElementType type, const std::function<std::string(const std::string&)>& between,
                        std::map<std::string, graph::Attribute> attributes = {}) {
    graph.opsets[""] = 19;
    const std::string scale = constant("scale", Tensor::scalar(0.25F));
    const std::string zero = constant("zero", graph::Tensor(type, {}, {std::byte{0}}));
    const std::string q = node("QuantizeLinear", {input("x", {2, 3}), scale, zero}, std::move(attributes));
    const std::string held = between(q);
    const bool same = held == q;
    std::string last = zero;
    if (!same) {
      const ElementType to = graph.nodes.back().op == "Cast"
                                 ? *graph::element_type_of(graph.nodes.back().int_or("to", 0))
                                 : type;
      last = constant("zero_behind", graph::Tensor(to, {}, std::vector<std::byte>(info(to).bits / 8)));
    }
    graph.outputs = {node("DequantizeLinear", {held, scale, last})};
    for (graph::Node& one : graph.nodes) one.version = 19;
    return graph.outputs[0];
  }
  std::string cast(const std::string& value, ElementType to) {
    return node("Cast", {value}, {{"to", std::int64_t{onnx_number(to)}}});
  }
  std::string clip(const std::string& value, std::uint8_t low, std::uint8_t high) {
    return node("Clip", {value, constant("low", graph::Tensor(ElementType::kUint8, {}, {std::byte{low}})),
                         constant("high", graph::Tensor(ElementType::kUint8, {}, {std::byte{high}}))});
  }
  static std::int64_t onnx_number(ElementType type) { return static_cast<std::int64_t>(type); }
};

std::string refusal(const Graph& graph) {
  try {
    from_qcdq(graph);
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

TEST_CASE("from QCDQ: casts between the two that lose nothing are passed, others are named") {
  struct Case {
    std::optional<std::uint8_t> high;  // of a Clip from 0
    ElementType to;
    bool holds;
  };
  for (const Case& it : {Case{{}, ElementType::kInt8, false}, Case{{}, ElementType::kInt16, true},
                         Case{{}, ElementType::kInt32, true}, Case{{}, ElementType::kUint8, true},
                         Case{127, ElementType::kInt8, true}, Case{128, ElementType::kInt8, false},
                         Case{15, ElementType::kInt8, true}, Case{15, ElementType::kFloat, false},
                         Case{{}, ElementType::kFloat, false}, Case{{}, ElementType::kBool, false}}) {
    CAPTURE(static_cast<int>(it.to));
    CAPTURE(it.high.value_or(0));
    Net net;
    net.quantized(ElementType::kUint8, [&](const std::string& q) {
      return net.cast(it.high ? net.clip(q, 0, *it.high) : q, it.to);
    });
    const std::string text = refusal(net.graph);
    CHECK((text == "taken") == it.holds);
    if (!it.holds) CHECK(says(text, {"which does not hold all of"}));
  }
}

TEST_CASE("from QCDQ: a float8 that saturates and one that does not are two quantizers") {
  for (const std::int64_t saturate : {0, 1}) {
    Net net;
    net.quantized(ElementType::kFloat8E4M3fn, [](const std::string& q) { return q; },
                  {{"saturate", saturate}});
    if (refusal(net.graph) != "taken") {
      CHECK(saturate == 0);  // QONNX has no word for it
      continue;
    }
    const Graph made = from_qcdq(net.graph);
    REQUIRE(made.nodes.size() == 1);
    CHECK(made.nodes[0].op == "FloatQuant");
    CHECK(made.nodes[0].int_or("saturation", -1) == saturate);
  }
}

TEST_CASE("to QCDQ: of the operator sets only QONNX's go, and only where nothing of theirs is left") {
  Net net;
  net.graph.opsets["com.somebody"] = 3;
  net.graph.opsets[std::string(graph::kChannelsLastDomain)] = 1;
  net.graph.outputs = {net.quant(net.input("x", {2, 3}), Tensor::scalar(0.5F), 0, 4)};
  const Graph made = to_qcdq(net.graph);
  CHECK(made.opsets.contains("com.somebody"));
  CHECK_FALSE(made.opsets.contains(std::string(graph::kQonnxDomain)));
  CHECK_FALSE(made.opsets.contains(std::string(graph::kChannelsLastDomain)));
  const Graph back = from_qcdq(made);
  CHECK(back.opsets.contains(std::string(graph::kQonnxDomain)));
  CHECK(back.opsets.contains("com.somebody"));
}

TEST_CASE("to QCDQ: what takes the place of a node without a name is called after its output") {
  for (const bool is_named : {true, false}) {
    Net net;
    net.graph.outputs = {net.quant(net.input("x", {2, 3}), Tensor::scalar(0.5F), 0, 4)};
    if (!is_named) net.graph.nodes.back().name.clear();
    const std::string expected = is_named ? net.graph.nodes.back().name : net.graph.outputs[0];
    const Graph made = to_qcdq(net.graph);
    REQUIRE(!made.nodes.empty());
    for (const Node& node : made.nodes) CHECK(node.name.starts_with(expected));
  }
}

TEST_CASE("to QCDQ: names that are taken get the next number") {
  for (const int taken : {0, 1, 2, 3}) {
    Net net;
    const std::string x = net.input("x", {2, 3});
    net.graph.outputs = {net.quant(x, Tensor::scalar(0.5F), 0, 4)};
    net.graph.nodes.back().name = "q";
    for (int i = 0; i < taken; ++i)
      net.graph.outputs.push_back(net.node(
          "Add",
          {x, net.constant("q_scale" + (i == 0 ? "" : "_" + std::to_string(i)), Tensor::scalar(1.0F))}));
    const Graph made = to_qcdq(net.graph);
    const auto quantize = std::ranges::find(made.nodes, std::string("QuantizeLinear"), &Node::op);
    REQUIRE(quantize != made.nodes.end());
    CHECK(quantize->inputs.at(1) == "q_scale" + (taken == 0 ? "" : "_" + std::to_string(taken)));
  }
}

}  // namespace
}  // namespace crumb::exporting

// Which operators each tool has, and attributes that are written for those that must have them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <random>
#include <set>

#include "export/lint/lint.h"
#include "export/lint/subject.h"
#include "graph/datatypes.h"
#include "graph/onnx/infer_shapes.h"
#include "tests/graph/node_builder.h"
#include "tests/support/capture_copy.h"
#include "tests/support/samples.h"

namespace crumb::exporting {
namespace {

using crumb::testing::says;
using Ints = std::vector<std::int64_t>;

std::vector<Finding> of_rule(const Graph& graph, Profile profile, std::string_view rule) {
  std::vector<Finding> all = lint(graph, profile);
  std::erase_if(all, [&](const Finding& one) { return one.rule != rule; });
  return all;
}

/// What the rule "operator" says of one node of an input of this rank; empty where it says nothing.
std::string refused(Profile profile, const std::string& op, std::string_view domain = "",
                    std::map<std::string, graph::Attribute> attributes = {}, std::size_t rank = 2) {
  graph::NodeBuilder net;
  const std::string x = net.input("x", Ints(rank, 2));
  net.graph.outputs = {
      net.node(op, {x, net.constant("c", Tensor::scalar(1.0F))}, std::move(attributes), domain)};
  const auto found = of_rule(net.graph, profile, "operator");
  CHECK(found.size() <= 1);
  return found.empty() ? "" : found[0].message;
}

constexpr Profile kAll[] = {Profile::kQonnx, Profile::kFinn, Profile::kHls4ml, Profile::kOnnxruntime};

TEST_CASE("operators: of which domain each tool takes which") {
  const std::string general(kQonnxDomain), last(kChannelsLastDomain);
  struct Case {
    std::string op, domain;
    std::set<Profile> taken;
  };
  using enum Profile;
  const std::vector<Case> all{
      {"Relu", "", {kQonnx, kFinn, kHls4ml, kOnnxruntime}},
      {"Erf", "", {kQonnx, kFinn, kOnnxruntime}},
      {"Scaler", "ai.onnx.ml", {kQonnx, kFinn, kOnnxruntime}},
      {"Gelu", "com.microsoft", {kOnnxruntime}},
      {"Conv", "com.microsoft.nchwc", {kOnnxruntime}},
      {"Conv", "com.ms.internal.nhwc", {kOnnxruntime}},
      {"Strange", "made.up", {}},
      {"Relu", "made.up", {}},
      {"Thresholding", "finn.custom_op.fpgadataflow", {kFinn}},
      {"Quant", general, {kQonnx, kFinn, kHls4ml}},
      {"IntQuant", general, {kQonnx, kFinn, kHls4ml}},
      {"BipolarQuant", general, {kQonnx, kFinn, kHls4ml}},
      {"FloatQuant", general, {kQonnx}},
      {"Trunc", general, {kQonnx, kFinn}},
      {"MultiThreshold", general, {kQonnx, kFinn}},
      {"DebugMarker", general, {kQonnx, kFinn}},
      {"GenericPartition", general, {kQonnx, kFinn}},
      {"Strange", general, {}},
      {"Relu", general, {}},
      {"DebugMarker",
       "",
       {kQonnx, kFinn, kOnnxruntime}},  // of ONNX's domain nobody asks what there is, but hls4ml
      {"Conv", last, {kQonnx, kHls4ml}},
      {"MaxPool", last, {kQonnx, kHls4ml}},
      {"BatchNormalization", last, {kQonnx, kHls4ml}},
      {"Relu", last, {}},
      {"FloatQuant", "", {kQonnx, kFinn, kOnnxruntime}},
  };
  for (const Case& it : all) {
    CAPTURE_COPY(it.op + " of '" + it.domain + "'");
    for (const Profile profile : kAll) {
      CAPTURE_COPY(std::string(name_of(profile)));
      CHECK(refused(profile, it.op, it.domain).empty() == it.taken.contains(profile));
    }
  }
  CHECK(says(refused(kFinn, "FloatQuant", general), {"FINN has no FloatQuant"}));
  CHECK(says(refused(kFinn, "Conv", last), {"channels on axis 1"}));
  CHECK(says(refused(kOnnxruntime, "Quant", general), {"onnxruntime has no operators of domain"}));
}

TEST_CASE("operators: control flow is for onnxruntime, be it by name or by the graph inside") {
  using enum Profile;
  const std::map<std::string, graph::Attribute> body{{"body", graph::Opaque{"a graph"}}}, none;
  for (const Profile profile : kAll) {
    CAPTURE_COPY(std::string(name_of(profile)));
    const bool refuses = profile != kOnnxruntime;
    for (const char* op : {"If", "Loop", "Scan"}) {
      for (const auto& attributes : {none, body})
        CHECK(says(refused(profile, op, "", attributes) + "control flow is not supported", {"control flow"}));
      for (const auto& attributes : {none, body})
        CHECK((refused(profile, op, "", attributes) == "control flow is not supported") == refuses);
    }
    CHECK((refused(profile, "SequenceMap", "", body) == "control flow is not supported") == refuses);
    CHECK(refused(profile, "SequenceMap", "") != "control flow is not supported");
    CHECK(refused(profile, "If", "made.up", body) != "control flow is not supported");
    CHECK(refused(profile, "If", "made.up") != "control flow is not supported");
  }
}

TEST_CASE("operators: what FINN has no layer for, quantized operators of ONNX, and a value added to itself") {
  using enum Profile;
  for (const char* op : {"Pad", "Clip", "LeakyRelu", "PRelu", "Elu", "HardSigmoid", "ThresholdedRelu",
                         "Softplus", "Softsign"}) {
    CAPTURE_COPY(std::string(op));
    CHECK(says(refused(kFinn, op), {"FINN has no hardware layer for", op}));
    CHECK(refused(kQonnx, op).empty());
    CHECK(refused(kFinn, op, "ai.onnx.ml").empty());
  }
  for (const char* op :
       {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul",
        "ConvInteger", "MatMulInteger", "QLinearAdd", "QLinearConcat", "QGemm", "QLinearLeakyRelu"}) {
    CAPTURE_COPY(std::string(op));
    CHECK(says(refused(kFinn, op), {"FINN has no", op, "it takes Quant"}));
    CHECK(refused(kQonnx, op).empty());
    CHECK(refused(kFinn, op, "ai.onnx.ml").empty());
  }
  const auto added = [](Profile profile, const std::string& a, const std::string& b,
                        bool is_constant = false) {
    graph::NodeBuilder net;
    for (const char* name : {"a", "b"}) {
      if (is_constant) net.constant(name, Tensor::scalar(1.0F));
      if (!is_constant) net.input(name, {1, 2});
    }
    net.graph.outputs = {net.node("Add", {a, b})};
    return !of_rule(net.graph, profile, "operator").empty();
  };
  CHECK(added(kFinn, "a", "a"));
  CHECK_FALSE(added(kFinn, "a", "b"));
  CHECK_FALSE(added(kFinn, "a", "a", true));
  CHECK_FALSE(added(kQonnx, "a", "a"));
  CHECK_FALSE(added(kHls4ml, "a", "a"));
}

TEST_CASE("operators: what hls4ml's parser has, and its products of two axes") {
  using enum Profile;
  for (const char* op : {"Conv",
                         "MatMul",
                         "Gemm",
                         "Relu",
                         "Tanh",
                         "Sigmoid",
                         "LeakyRelu",
                         "Elu",
                         "Selu",
                         "PRelu",
                         "Softmax",
                         "Softsign",
                         "Softplus",
                         "ThresholdedRelu",
                         "Add",
                         "Sub",
                         "Mul",
                         "Div",
                         "Sum",
                         "Max",
                         "Min",
                         "Concat",
                         "Transpose",
                         "MaxPool",
                         "Reshape",
                         "Flatten",
                         "BatchNormalization",
                         "AveragePool",
                         "Resize",
                         "Pad",
                         "Dropout",
                         "Identity",
                         "GlobalAveragePool",
                         "GlobalMaxPool"}) {
    CAPTURE_COPY(std::string(op));
    CHECK(refused(kHls4ml, op).empty());
    CHECK(says(refused(kHls4ml, op, "made.up"), {"hls4ml's parser has no operator", op}));
  }
  for (const std::size_t rank : {1u, 2u, 3u, 4u}) {
    const std::string said = refused(kHls4ml, "MatMul", "", {}, rank);
    CHECK(said.empty() == (rank <= 2));
    if (rank > 2) CHECK(says(said, {"of two axes, found", std::to_string(rank).c_str()}));
    CHECK(refused(kHls4ml, "Relu", "", {}, rank).empty());
    CHECK(refused(kFinn, "MatMul", "", {}, rank).empty());
  }
}

/// The only node of this operator in the graph as it is fixed.
Node fixed(const graph::NodeBuilder& net, Profile profile, std::string_view op) {
  const Graph graph = fix(graph::infer_shapes(net.graph), profile);
  const auto found = std::ranges::find(graph.nodes, op, &Node::op);
  REQUIRE(found != graph.nodes.end());
  CHECK(std::ranges::count(graph.nodes, op, &Node::op) == 1);
  return *found;
}

TEST_CASE(
    "fix: SAME as numbers leaves as many windows as steps, with the least padding, the odd one at one end") {
  std::mt19937 engine(8);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine);
  };
  for (int round = 0; round < 120; ++round) {
    const bool is_pool = round % 3 == 0, is_last = round % 3 == 1, upper = draw(0, 1) == 1;
    Ints size, kernel, strides, dilations;
    for (int axis = 0; axis < 2; ++axis) {
      kernel.push_back(draw(1, 4));
      strides.push_back(draw(1, 3));
      dilations.push_back(is_pool ? 1 : draw(1, 2));
      size.push_back(draw(3, 9));
    }
    graph::NodeBuilder net;
    net.graph.opsets[std::string(kChannelsLastDomain)] = 1;
    std::map<std::string, graph::Attribute> attributes{
        {"auto_pad", std::string(upper ? "SAME_UPPER" : "SAME_LOWER")}, {"strides", strides}};
    if (!is_pool) attributes["dilations"] = dilations;
    if (is_pool || draw(0, 1) == 1) attributes["kernel_shape"] = kernel;
    const std::string x =
        net.quant(net.input("x", is_last ? Ints{1, size[0], size[1], 2} : Ints{1, 2, size[0], size[1]}),
                  Tensor::scalar(0.5F), 0, 4);
    std::vector<std::string> inputs{x};
    const std::string op = is_pool ? "MaxPool" : "Conv";
    if (!is_pool) {
      const std::vector<float> codes(static_cast<std::size_t>(2 * kernel[0] * kernel[1]), 1);
      inputs.push_back(net.quant(net.constant("w", Tensor::floats(is_last ? Ints{1, kernel[0], kernel[1], 2}
                                                                          : Ints{1, 2, kernel[0], kernel[1]},
                                                                  codes)),
                                 Tensor::scalar(1.0F), 0, 4));
    }
    net.graph.outputs = {
        net.node(op, inputs, attributes, is_last ? graph::kChannelsLastDomain : graph::kOnnxDomain)};
    const Node made = fixed(net, is_pool ? Profile::kFinn : Profile::kHls4ml, op);
    CAPTURE(round);
    CAPTURE(size);
    CAPTURE(kernel);
    CAPTURE(strides);
    CAPTURE(dilations);
    CHECK_FALSE(made.has("auto_pad"));
    CHECK(made.ints_or("kernel_shape", {}) == kernel);
    const Ints pads = made.ints_or("pads", {});
    REQUIRE(pads.size() == 4);
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const std::int64_t reach = (kernel[axis] - 1) * dilations[axis] + 1, begin = pads[axis],
                         end = pads[axis + 2], wanted = (size[axis] + strides[axis] - 1) / strides[axis];
      const auto windows = [&](std::int64_t padding) {
        return size[axis] + padding < reach ? 0 : (size[axis] + padding - reach) / strides[axis] + 1;
      };
      CHECK(begin >= 0);
      CHECK(end >= 0);
      CHECK(windows(begin + end) >= wanted);
      if (begin + end > 0) CHECK(windows(begin + end) == wanted);
      if (begin + end > 0) CHECK(windows(begin + end - 1) < wanted);
      CHECK((upper ? end - begin : begin - end) == (begin + end) % 2);
    }
  }
}

TEST_CASE("fix: attributes that have defaults are written, each as it was meant") {
  const auto conv = [](std::map<std::string, graph::Attribute> attributes, Profile profile) {
    graph::NodeBuilder net;
    const std::string x = net.quant(net.input("x", {1, 2, 5, 6}), Tensor::scalar(0.5F), 0, 4);
    const std::string w =
        net.quant(net.constant("w", Tensor::floats({3, 2, 2, 3}, std::vector<float>(36, 1))),
                  Tensor::scalar(1.0F), 0, 4);
    net.graph.outputs = {net.node("Conv", {x, w}, std::move(attributes))};
    return fixed(net, profile, "Conv");
  };
  for (const auto& pad : {std::string(), std::string("NOTSET"), std::string("VALID")}) {
    for (const Profile profile : {Profile::kFinn, Profile::kHls4ml}) {
      CAPTURE(pad);
      CAPTURE_COPY(std::string(name_of(profile)));
      std::map<std::string, graph::Attribute> given;
      if (!pad.empty()) given["auto_pad"] = pad;
      const Node made = conv(given, profile);
      const bool stays = profile == Profile::kFinn && pad == "VALID";  // qonnx works them out
      CHECK(made.text_or("auto_pad", "NOTSET") == (stays ? "VALID" : "NOTSET"));
      CHECK(made.ints_or("pads", {}) == (stays ? Ints{} : Ints(4, 0)));
      CHECK(made.ints_or("strides", {}) == Ints{1, 1});
      CHECK(made.int_or("group", 0) == 1);
      const bool is_hls4ml = profile == Profile::kHls4ml;
      CHECK(made.ints_or("dilations", {}) == (is_hls4ml ? Ints{1, 1} : Ints{}));
      CHECK(made.ints_or("kernel_shape", {}) == (is_hls4ml ? Ints{2, 3} : Ints{}));
    }
  }
  // What is there stays.
  const Node made = conv({{"pads", Ints{1, 0, 0, 2}}, {"strides", Ints{2, 1}}, {"dilations", Ints{1, 2}}},
                         Profile::kHls4ml);
  CHECK(made.ints_or("pads", {}) == Ints{1, 0, 0, 2});
  CHECK(made.ints_or("strides", {}) == Ints{2, 1});
  CHECK(made.ints_or("dilations", {}) == Ints{1, 2});
}

TEST_CASE("lint: groups are one, or one for each channel, which for FINN has one output") {
  for (const auto& [groups, outputs, each] :
       {std::tuple{1, 4, 2}, {1, 4, 1}, {2, 4, 1}, {4, 4, 1}, {2, 4, 2}, {2, 2, 1}, {2, 2, 2}}) {
    for (const Profile profile : {Profile::kFinn, Profile::kHls4ml}) {
      for (const std::size_t axes : {1u, 2u, 3u}) {
        CAPTURE_COPY(groups);
        CAPTURE_COPY(outputs);
        CAPTURE_COPY(each);
        CAPTURE(axes);
        graph::NodeBuilder net;
        Ints image{1, groups * each}, kernel{outputs, each};
        for (std::size_t i = 0; i < axes; ++i) image.push_back(3), kernel.push_back(1);
        const std::vector<float> codes(static_cast<std::size_t>(outputs * each), 1);
        const std::string w =
            net.quant(net.constant("w", Tensor::floats(kernel, codes)), Tensor::scalar(1.0F), 0, 4);
        net.graph.outputs = {net.node("Conv", {net.input("x", image), w}, {{"group", std::int64_t{groups}}})};
        const auto found = of_rule(graph::infer_shapes(net.graph), profile, "conv-group");
        const bool finn = profile == Profile::kFinn;
        const bool is_good = groups == 1 || (each == 1 && (!finn || outputs == groups));
        const auto says_groups = [](const Finding& one) {
          return one.message.find("groups of several") != std::string::npos;
        };
        CHECK(std::ranges::any_of(found, says_groups) != is_good);
        CHECK(static_cast<bool>(std::ranges::count_if(found, [](const Finding& one) {
                return one.message.find("expected two (of which") != std::string::npos;
              })) == (finn && axes != 2));
      }
    }
  }
}

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

TEST_CASE("lint: parameters that are computed are called by their names") {
  struct Case {
    const char* op;
    std::vector<const char*> names;  // behind the data
  };
  for (const Case& it :
       {Case{"Quant", {"scale", "zeropt", "bitwidth", "an input"}},
        Case{"IntQuant", {"scale", "zeropt", "bitwidth", "an input"}}, Case{"BipolarQuant", {"scale"}},
        Case{"FloatQuant",
             {"scale", "exponent_bitwidth", "mantissa_bitwidth", "exponent_bias", "max_val", "an input"}},
        Case{"Trunc", {"scale", "zeropt", "in_bitwidth", "out_bitwidth"}},
        Case{"Trunc", {"scale", "zeropt", "in_bitwidth", "out_scale", "out_bitwidth", "an input"}}}) {
    graph::NodeBuilder net;
    std::vector<std::string> inputs{net.input("x", {1, 3})};
    for (std::size_t i = 0; i < it.names.size(); ++i)
      inputs.push_back(net.input("p" + std::to_string(i), {}));
    net.graph.outputs = {net.node(it.op, inputs, {}, kQonnxDomain)};
    const auto found = of_rule(net.graph, Profile::kFinn, "parameter-constant");
    std::multiset<std::string> said, wanted;
    for (const Finding& one : found) said.insert(one.message);
    for (const char* name : it.names) wanted.insert(std::string(name) + " is computed, expected a constant");
    std::set<std::string> once(wanted.begin(), wanted.end());  // the same finding twice is one
    CHECK(std::set<std::string>(said.begin(), said.end()) == once);
    // qonnx takes computed scales and zero points, widths not.
    for (const Finding& one : of_rule(net.graph, Profile::kQonnx, "parameter-constant"))
      CHECK((says(one.message + "bit", {"bit"}) && one.message.find("scale is") == std::string::npos));
  }
}

TEST_CASE("lint: a constant of as many axes as the data, and more") {
  struct Case {
    Ints data, constant;
    bool is_found, fixable;
  };
  for (const Case& it :
       {Case{{3}, {3}, true, false}, Case{{1}, {1}, true, true}, Case{{1, 3}, {3}, false, false},
        Case{{1, 3}, {1, 3}, true, true}, Case{{2, 3}, {2, 3}, true, false}, Case{{1, 3}, {}, false, false},
        Case{{}, {}, false, false}, Case{{1, 2, 3}, {2, 3}, false, false},
        Case{{1, 2, 3}, {1, 2, 3}, true, true}, Case{{1, 3}, {1, 1, 3}, true, true},
        Case{{1, 3}, {1, 2, 3}, true, false}, Case{{1, 3}, {2, 1, 3}, true, false}}) {
    for (const char* op : {"Add", "Sub", "Mul", "Div", "Max"}) {
      for (const bool first : {false, true}) {
        CAPTURE(it.data);
        CAPTURE(it.constant);
        CAPTURE_COPY(std::string(op));
        graph::NodeBuilder net;
        const std::string x = net.input("x", it.data);
        const auto count = static_cast<std::size_t>(graph::count_elements(it.constant).take());
        const std::string c = net.constant("c", Tensor::floats(it.constant, std::vector<float>(count, 2)));
        net.graph.outputs = {net.node(op, first ? std::vector{c, x} : std::vector{x, c})};
        const auto found = of_rule(graph::infer_shapes(net.graph), Profile::kHls4ml, "batch-constant");
        REQUIRE(found.size() == (it.is_found && std::string(op) != "Max" ? 1 : 0));
        if (found.empty()) continue;
        CHECK(found[0].fixable == it.fixable);
        CHECK(says(found[0].message, {graph::text_of(std::span(it.constant)).c_str()}));
        const Node made = fixed(net, Profile::kHls4ml, op);
        const Graph after = fix(graph::infer_shapes(net.graph), Profile::kHls4ml);
        for (std::size_t i = 0; i < 2; ++i) {
          const Tensor* constant = constant_input(after, made, i);
          if (constant == nullptr) continue;
          CHECK(constant->size() == static_cast<std::int64_t>(count));
          if (it.fixable) CHECK(constant->rank() + 1 == it.data.size());
          if (!it.fixable) CHECK(constant->shape() == it.constant);
        }
      }
    }
  }
}

TEST_CASE("fix: of two constants with an axis for the batch, the one whose axes are longer than 1 stays") {
  for (const Ints& longer : {Ints{2, 1, 3}, Ints{1, 2, 3}, Ints{2, 2, 3}, Ints{2, 3}}) {
    CAPTURE(longer);
    graph::NodeBuilder net;
    const auto count = static_cast<std::size_t>(graph::count_elements(longer).take());
    const std::string c = net.constant("c", Tensor::floats(longer, std::vector<float>(count, 2))),
                      d = net.constant("d", Tensor::floats({1, 1, 3}, std::vector<float>(3, 2)));
    net.graph.outputs = {net.node("Add", {net.input("x", {1, 3}), c}),
                         net.node("Mul", {net.input("y", {1, 3}), d})};
    const Graph made = fix(graph::infer_shapes(net.graph), Profile::kHls4ml);
    const auto constant_of = [&](std::string_view op) {
      const auto found = std::ranges::find(made.nodes, op, &Node::op);
      REQUIRE(found != made.nodes.end());
      const Tensor* constant = constant_input(made, *found, 1);
      REQUIRE(constant != nullptr);
      return constant->shape();
    };
    CHECK(constant_of("Add") == longer);
    CHECK(constant_of("Mul") == Ints{3});
  }
}

TEST_CASE("lint: what cannot be worked out is said, and left as it is") {
  const auto conv = [](const std::function<void(graph::NodeBuilder&)>& change) {
    graph::NodeBuilder net;
    const std::string x = net.input("x", {1, 1, 4, 4}), w = net.input("w", {1, 1, 3, 3});
    net.graph.outputs = {net.node("Conv", {x, w}, {{"group", std::int64_t{1}}})};
    change(net);
    return net.graph;
  };
  using Found = std::map<std::string, bool>;  // message -> fixable
  const auto said = [](const Graph& graph, Profile profile = Profile::kHls4ml) {
    Found found;
    for (const Finding& one : of_rule(graph, profile, "conv-attributes")) found[one.message] = one.fixable;
    return found;
  };
  const auto missing = [](const char* name) { return "attribute " + std::string(name) + " is not written"; };
  const std::string same = "auto_pad is 'SAME_UPPER', expected pads";
  const auto all = [&](bool kernel, bool axes, bool pads, bool is_same = false) {
    return Found{{missing("kernel_shape"), kernel},
                 {missing("strides"), axes},
                 {missing("dilations"), axes},
                 {is_same ? same : missing("pads"), pads}};
  };
  const auto set_same = [](graph::NodeBuilder& net) {
    net.graph.nodes[0].attributes["auto_pad"] = std::string("SAME_UPPER");
  };
  CHECK(said(conv([](auto&) {})) == all(true, true, true));
  CHECK(said(conv(set_same)) == all(true, true, true, true));
  // A kernel of which one size is open.
  for (const auto& shape : {graph::Shape{1, 1, graph::Dim("k"), 3}, graph::Shape{1, 1, 3, graph::Dim("k")}}) {
    CHECK(said(conv([&](auto& net) { net.graph.values["w"].shape = shape; })) == all(false, true, true));
    CHECK(said(conv([&](auto& net) {
            net.graph.values["w"].shape = shape;
            set_same(net);
          })) == all(false, true, false, true));
  }
  // A kernel of which nothing is known, and one of too few axes.
  CHECK(said(conv([](auto& net) { net.graph.values["w"].shape.reset(); })) == all(false, false, false));
  CHECK(said(conv([](auto& net) {
          net.graph.values["w"].shape = graph::Shape{1, 1};
        })) == all(false, false, false));
  // An image of open size.
  for (const auto& shape : {graph::Shape{1, 1, graph::Dim("h"), 4}, graph::Shape{1, 1, 4, graph::Dim("w")}}) {
    CHECK(said(conv([&](auto& net) {
            net.graph.values["x"].shape = shape;
            set_same(net);
          })) == all(true, true, false, true));
  }
  // Strides that are none.
  for (const Ints& strides : {Ints{0, 1}, Ints{1, 0}, Ints{1, -1}, Ints{1}, Ints{1, 1, 1}}) {
    Found wanted = all(true, true, false, true);
    wanted.erase(missing("strides"));
    CHECK(said(conv([&](auto& net) {
            set_same(net);
            net.graph.nodes[0].attributes["strides"] = strides;
          })) == wanted);
  }
  // A Reshape: without a target it has none that is computed; with one it is known where its result is.
  for (const bool is_known : {true, false}) {
    for (const int inputs : {1, 2}) {
      graph::NodeBuilder net;
      std::vector<std::string> taken{net.input("x", {1, 6})};
      if (inputs == 2) {
        taken.push_back(net.input("to", {2}));
        net.graph.values["to"].type = graph::ElementType::kInt64;
      }
      const std::string y = net.node("Reshape", taken);
      if (is_known) net.graph.values[y] = {.type = graph::ElementType::kFloat, .shape = graph::Shape{2, 3}};
      net.graph.outputs = {y};
      const auto found = of_rule(net.graph, Profile::kHls4ml, "reshape-target");
      REQUIRE(found.size() == (inputs == 2 ? 1 : 0));
      if (!found.empty()) CHECK(found[0].fixable == is_known);
      const Graph fixed = fix(net.graph, Profile::kHls4ml);
      const Node& reshape = fixed.nodes.at(0);
      const Tensor* target = constant_input(fixed, reshape, 1);
      REQUIRE((target != nullptr) == (inputs == 2 && is_known));
      if (target != nullptr) CHECK(target->to_ints() == Ints{2, 3});
      CHECK_FALSE(reshape.has("allowzero"));  // no size is 0
    }
  }
  // No output either.
  graph::NodeBuilder net;
  const std::string x = net.input("x", {1, 6});
  net.graph.values[net.input("to", {2})].type = graph::ElementType::kInt64;
  net.node("Reshape", {x, "to"});
  net.graph.nodes[0].outputs.clear();
  net.graph.outputs = {net.node("Relu", {x})};
  const auto found = of_rule(net.graph, Profile::kHls4ml, "reshape-target");
  REQUIRE(found.size() == 1);
  CHECK_FALSE(found[0].fixable);
  CHECK(fix(net.graph, Profile::kHls4ml).nodes.size() == 1);
}

TEST_CASE(
    "lint: an annotation is held against the quantizer through what moves elements, and through nothing "
    "else") {
  const auto said = [](std::string_view domain, const char* op, float bits, const char* type) {
    graph::NodeBuilder net;
    std::string y = net.quant(net.input("x", {1, 3}), Tensor::scalar(0.5F), 0, bits);
    if (*op != '\0') y = net.node(op, {y, net.constant("to", Tensor::ints({2}, Ints{1, 3}))}, {}, domain);
    net.graph.values[y] = {.type = graph::ElementType::kFloat, .shape = graph::Shape{{1}, {3}}};
    net.graph.values[y].annotations["finn_datatype"] = type;
    net.graph.outputs = {y};
    const auto found = of_rule(net.graph, Profile::kQonnx, "annotation-type");
    return found.empty() ? std::string() : found[0].message;
  };
  const char* const made = "expected an integer type on integers only";
  CHECK(says(said("", "", 4, "INT4"), {made}));
  CHECK(says(said("", "Reshape", 4, "INT4"), {made}));
  CHECK(says(said("", "Flatten", 4, "INT4"), {made}));
  CHECK(said("made.up", "Reshape", 4, "INT4").find(made) == std::string::npos);
  CHECK(said("", "Erf", 4, "INT4").find(made) == std::string::npos);
  // Up to the widest there is.
  CHECK(says(said("", "", 512, "INT4"), {made}));
  CHECK(said("", "", 513, "INT4").find(made) == std::string::npos);

  CHECK(said("", "", 0.5F, "INT4").find(made) == std::string::npos);
  CHECK(says(said("", "", 1, "INT4"), {made}));
}

TEST_CASE(
    "fix: thresholds say where channels are: last behind a matrix product, whatever scales and shifts in "
    "between") {
  const std::vector<std::vector<std::string>> ways{{},      {"Relu"},  {"Add"},   {"Sub"},         {"Mul"},
                                                   {"Div"}, {"Quant"}, {"Steps"}, {"Add", "Relu"}, {"Neg"}};
  static constexpr const char* kFirst[] = {"", "", "NC", "NCW", "NCHW", ""};
  static constexpr const char* kLast[] = {"", "", "NC", "NWC", "NHWC", ""};
  for (const auto& way : ways) {
    for (const bool is_matrix : {true, false}) {
      for (std::size_t rank = 2; rank <= 5; ++rank) {
        CAPTURE(way);
        CAPTURE(is_matrix);
        CAPTURE(rank);
        graph::NodeBuilder net;
        Ints shape(rank, 2);
        shape[0] = 1;
        std::string y = net.input("x", shape);
        net.graph.values[y].annotations["finn_datatype"] = "INT4";
        if (is_matrix) {
          const std::string w =
              net.quant(net.constant("w", Tensor::floats({2, 2}, std::vector<float>{1, 2, 3, 4})),
                        Tensor::scalar(1.0F), 0, 4);
          y = net.node("MatMul", {y, w});
        }
        for (const std::string& op : way) {
          if (op == "Quant") {
            y = net.quant(y, Tensor::scalar(1.0F), 0, 8);
          } else if (op == "Steps") {
            y = net.node(
                "MultiThreshold",
                {y, net.constant("t", Tensor::floats({1, 3}, std::vector<float>{-1.5F, 0.5F, 2.5F}))},
                {{"data_layout", std::string("any")}}, kQonnxDomain);
          } else if (op == "Relu" || op == "Neg") {
            y = net.node(op, {y});
          } else {
            y = net.node(op, {y, net.constant("c" + op, Tensor::scalar(2.0F))});
          }
        }
        y = net.quant(y, Tensor::scalar(1.0F), 0, 3);  // rounded otherwise than FINN would
        net.graph.nodes.back().name = "it";
        net.graph.nodes.back().attributes["rounding_mode"] = std::string("CEIL");
        net.graph.outputs = {y};
        const Graph made = fix(graph::infer_shapes(net.graph), Profile::kFinn);
        const auto it = std::ranges::find(made.nodes, std::string("it"), &Node::name);
        REQUIRE(it != made.nodes.end());
        REQUIRE(it->op == "MultiThreshold");
        const bool stops = way == std::vector<std::string>{"Neg"};  // of that nothing is said
        CHECK(it->text_or("data_layout", "") == (is_matrix && !stops ? kLast : kFirst)[rank]);
        CHECK(it->text_or("out_dtype", "") == "INT3");
        CHECK(it->float_or("out_bias", 0) == -4);
        CHECK(it->float_or("out_scale", 0) == 1);
      }
    }
  }
}

TEST_CASE("fix: thresholds' type holds the codes and no narrower one does; a scale is multiplied by behind") {
  for (const bool is_signed : {true, false}) {
    for (const bool narrow : {true, false}) {
      for (const int bits : {1, 2, 3, 8}) {
        for (const float zero : {0.0F, 1.0F, -3.0F, 5.0F}) {
          for (const float scale : {1.0F, 0.5F}) {
            const double low = is_signed ? -(1 << (bits - 1)) + (narrow ? 1 : 0) : 0,
                         high = (is_signed ? (1 << (bits - 1)) : (1 << bits)) - 1 -
                                (narrow && !is_signed ? 1 : 0);
            if (high <= low || (bits == 1 && is_signed)) continue;
            CAPTURE(is_signed);
            CAPTURE(narrow);
            CAPTURE(bits);
            CAPTURE(zero);
            graph::NodeBuilder net;
            const std::string x = net.input("x", {1, 3});
            const std::string y =
                net.quant(x, Tensor::scalar(scale), zero, static_cast<float>(bits), is_signed, narrow);
            net.graph.nodes.back().attributes["rounding_mode"] = std::string("CEIL");
            net.graph.outputs = {y};
            const Graph made = fix(graph::infer_shapes(net.graph), Profile::kFinn);
            const auto it = std::ranges::find(made.nodes, std::string("MultiThreshold"), &Node::op);
            REQUIRE(it != made.nodes.end());
            const double least = low - static_cast<double>(zero), most = high - static_cast<double>(zero);
            const std::string type = it->text_or("out_dtype", "");
            const graph::DataType found = graph::DataType::parse(type).take();
            CAPTURE(type);
            CHECK(found.allows(least));
            CHECK(found.allows(most));
            CHECK(found.is_signed() == (least < 0));
            if (found.bits() > 1) {
              const graph::DataType less =
                  graph::DataType::parse((least < 0 ? "INT" : "UINT") + std::to_string(found.bits() - 1))
                      .take();
              CHECK_FALSE((less.allows(least) && less.allows(most)));
            }
            CHECK(it->float_or("out_bias", 99) == static_cast<float>(least));
            CHECK(constant_input(made, *it, 1)->shape() == Ints{1, static_cast<std::int64_t>(high - low)});
            CHECK(std::ranges::count(made.nodes, std::string("Mul"), &Node::op) == (scale == 1 ? 0 : 1));
          }
        }
      }
    }
  }
}

TEST_CASE("names for hls4ml: inputs are words of C++ that it does not take, constants begin with no digit") {
  const auto faults = [](const std::string& input, const std::string& constant, const std::string& node) {
    graph::NodeBuilder net;
    net.input(input, {1, 3});
    net.constant(constant, Tensor::scalar(1.0F));
    net.graph.outputs = {net.node("Add", {input, constant})};
    net.graph.nodes.back().name = node;
    std::set<std::string> found;
    for (const Finding& one : of_rule(net.graph, Profile::kHls4ml, "cpp-name")) found.insert(one.node);
    // What is renamed is found no more, and has names that differ.
    const Graph renamed = fix_names(net.graph, Profile::kHls4ml);
    CHECK(of_rule(renamed, Profile::kHls4ml, "cpp-name").empty());
    CHECK(renamed.nodes[0].inputs[0] == renamed.inputs[0]);
    CHECK(renamed.initializers.contains(renamed.nodes[0].inputs[1]));
    CHECK(renamed.inputs[0] != renamed.nodes[0].name);
    if (input != node) CHECK((renamed.inputs[0] == input) != found.contains(input));
    CHECK(renamed.initializers.contains(constant) != found.contains(constant));
    return found;
  };
  using Names = std::set<std::string>;
  CHECK(faults("x", "c", "Add_0") == Names{});
  for (const char* word : {"a", "z", "A", "Z", "a0", "a9", "_a", "a_b", "image2"})
    CHECK(faults(word, "c", "Add_0") == Names{});
  for (const char* odd : {"0a", "9", "a.b", "a-b", "a b", "a:b", "a/b", "a@b", "a[b", "a`b", "a{b"})
    CHECK(faults(odd, "c", "Add_0") == Names{odd});
  for (const char* taken :
       {"alignas", "xor_eq", "input_t", "result_t", "myproject", "this", "while", "input"})
    CHECK(faults(taken, "c", "Add_0") == Names{taken});
  for (const char* constant : {"this", "a-b", "_c", "/c", "c9"})
    CHECK(faults("x", constant, "Add_0") == Names{});
  for (const char* constant : {"0c", "9c", "c.d", "input"})
    CHECK(faults("x", constant, "Add_0") == Names{constant});
  for (const char* node : {"this", "Add_9", "a_"}) CHECK(faults("x", "c", node) == Names{});
  for (const char* node : {"input", "a-b", "a/b"}) CHECK(faults("x", "c", node) == Names{node});
  CHECK(faults("Add_0", "c", "Add_0") == Names{"Add_0"});
}

TEST_CASE("fix: nodes' names begin with a letter, hold no point, and differ") {
  const std::vector<std::vector<std::string>> all{
      {"a", "b"},   {"a", "a"},  {"", ""},        {"0a", "Relu_0"},
      {"a.b", "a"}, {"_a", "@"}, {"a", "a", "a"}, {"", "Relu_0", "Relu_1"}};
  for (const auto& names : all) {
    CAPTURE(names);
    graph::NodeBuilder net;
    std::string y = net.input("x", {1, 3});
    for (const std::string& name : names) {
      y = net.node("Relu", {y});
      net.graph.nodes.back().name = name;
    }
    net.graph.outputs = {y};
    const Graph made = fix(net.graph, Profile::kQonnx);
    REQUIRE(made.nodes.size() == names.size());
    std::set<std::string> seen;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string& name = made.nodes[i].name;
      CHECK(seen.insert(name).second);
      CHECK(std::isalpha(static_cast<unsigned char>(name.at(0))) != 0);
      CHECK(name.find('.') == std::string::npos);
      const bool is_good = !names[i].empty() && std::isalpha(static_cast<unsigned char>(names[i][0])) != 0 &&
                           names[i].find('.') == std::string::npos &&
                           std::ranges::count(names, names[i]) == 1;
      if (is_good) CHECK(name == names[i]);
    }
    const auto found = of_rule(net.graph, Profile::kQonnx, "node-name");
    CHECK(found.empty() == std::ranges::equal(names, made.nodes, {}, {}, &Node::name));
  }
}

}  // namespace
}  // namespace crumb::exporting

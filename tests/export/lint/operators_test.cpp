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
#include "tests/export/lint/findings.h"
#include "tests/graph/node_builder.h"
#include "tests/support/capture_copy.h"
#include "tests/support/samples.h"

namespace crumb::exporting {
namespace {

using crumb::testing::says;
using Ints = std::vector<std::int64_t>;

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

}  // namespace
}  // namespace crumb::exporting

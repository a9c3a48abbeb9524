// The fixed-point types that hls4ml is told, of networks small enough to say them by hand.
#include "export/hls4ml/layer_types.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "graph/onnx/infer_shapes.h"
#include "tests/graph/node_builder.h"

namespace crumb::exporting::hls4ml {
namespace {

TEST_CASE("types: an input's quantizer, by sign, width, scale, rounding and saturation") {
  for (const bool is_signed : {true, false}) {
    for (const bool narrow : {false, true}) {
      for (const char* mode : {"ROUND", "FLOOR"}) {
        for (const int bits : {2, 4, 8}) {
          for (const int exponent : {-5, -1, 0, 3}) {
            graph::NodeBuilder net;
            const std::string q =
                net.quant(net.input("x", {1, 3}), graph::Tensor::scalar(std::ldexp(1.0F, exponent)), 0,
                          static_cast<float>(bits), is_signed, narrow);
            net.graph.nodes.back().attributes["rounding_mode"] = std::string(mode);
            net.graph.outputs = {q};
            const NetworkTypes types = types_of(graph::infer_shapes(net.graph));
            const std::string wanted = std::string(is_signed ? "ap_fixed<" : "ap_ufixed<") +
                                       std::to_string(bits) + "," + std::to_string(bits + exponent) +
                                       (std::string(mode) == "FLOOR" ? ",AP_TRN," : ",AP_RND_CONV,") +
                                       (narrow ? "AP_SAT_SYM>" : "AP_SAT>");
            CHECK(types.inputs.at("x") == wanted);
            CHECK(types.inexact.empty());
          }
        }
      }
    }
  }
}

/// What a value is after one operator with a constant: by trying every input.
TEST_CASE("types: results of elementwise operators hold every number that comes out, and end at one") {
  for (const char* op : {"Relu", "Add", "Sub", "Mul", "Max", "Min"}) {
    for (const double constant : {-100.0, -3.0, -0.5, 0.0, 0.25, 2.0, 100.0}) {
      const std::string name = op;
      if (name == "Relu" && constant != 0) continue;
      CAPTURE(name);
      CAPTURE(constant);
      graph::NodeBuilder net;
      const std::string q = net.quant(net.input("x", {1, 3}), graph::Tensor::scalar(0.5F), 0, 4);
      std::vector<std::string> inputs{q};
      if (name != "Relu")
        inputs.push_back(net.constant("c", graph::Tensor::scalar(static_cast<float>(constant))));
      const std::string made = net.node(op, inputs);
      const std::string last = net.node("Relu", {made});  // of what may be below 0 altogether
      net.graph.outputs = {last};
      const NetworkTypes types = types_of(graph::infer_shapes(net.graph));
      REQUIRE(types.inexact.empty());
      double low = 1e9, high = -1e9;
      for (int code = -8; code <= 7; ++code) {
        const double x = code * 0.5;
        const double y = name == "Relu"  ? std::max(x, 0.0)
                         : name == "Add" ? x + constant
                         : name == "Sub" ? x - constant
                         : name == "Mul" ? x * constant
                         : name == "Max" ? std::max(x, constant)
                                         : std::min(x, constant);
        low = std::min(low, y), high = std::max(high, y);
      }
      for (const LayerTypes& layer : types.layers) {
        if (!layer.result) continue;
        const bool is_last = layer.node == net.graph.nodes.back().name;
        CHECK(layer.result->low == (is_last ? std::max(low, 0.0) : low));
        CHECK(layer.result->high == (is_last ? std::max(high, 0.0) : high));
      }
    }
  }
}

TEST_CASE("types: a quantizer is signed and wide where it does not say else") {
  graph::NodeBuilder net;
  net.graph.outputs = {net.quant(net.input("x", {1, 3}), graph::Tensor::scalar(0.5F), 0, 4)};
  net.graph.nodes.back().attributes.clear();
  CHECK(types_of(graph::infer_shapes(net.graph)).inputs.at("x") == "ap_fixed<4,3,AP_RND_CONV,AP_SAT>");
}

/// Of halves from 6 to 13.5 and quarters from -2 to 1.75, what a Relu behind the operator makes.
TEST_CASE(
    "types: padding adds 0, and what joins or compares two holds the numbers of both, on the finer grid") {
  struct Case {
    const char* op;
    std::map<std::string, graph::Attribute> attributes;
    bool takes_two;
    int exponent;
    double low, high;
  };
  const std::vector<Case> all{
      {"Identity", {}, false, -1, 6, 13.5},
      {"Pad", {}, false, -1, 0, 13.5},
      {"Concat", {{"axis", std::int64_t{1}}}, true, -2, 0, 13.5},
      {"Max", {}, true, -2, 6, 13.5},
      {"Min", {}, true, -2, 0, 1.75},
      {"Add", {}, true, -2, 4, 15.25},
  };
  for (const Case& it : all) {
    for (const bool swapped : {false, true}) {
      CAPTURE(std::string(it.op));
      CAPTURE(swapped);
      graph::NodeBuilder net;
      const std::string halves =
          net.node("Add", {net.quant(net.input("x", {1, 4}), graph::Tensor::scalar(0.5F), 0, 4),
                           net.constant("ten", graph::Tensor::scalar(10.0F))});
      const std::string quarters = net.quant(net.input("y", {1, 4}), graph::Tensor::scalar(0.25F), 0, 4);
      std::vector<std::string> inputs{halves};
      if (it.takes_two) inputs.push_back(quarters);
      if (it.takes_two && swapped) std::swap(inputs[0], inputs[1]);
      if (it.op == std::string("Pad"))
        inputs.push_back(
            net.constant("pads", graph::Tensor::ints({4}, std::vector<std::int64_t>{0, 1, 0, 1})));
      net.graph.outputs = {net.node("Relu", {net.node(it.op, inputs, it.attributes)}), quarters};
      const NetworkTypes types = types_of(graph::infer_shapes(net.graph));
      CHECK(types.inexact.empty());
      const auto last = std::ranges::find(types.layers, net.graph.nodes.back().name, &LayerTypes::node);
      REQUIRE(last != types.layers.end());
      REQUIRE(last->result);
      CHECK(last->result->exponent == it.exponent);
      CHECK(last->result->low == it.low);
      CHECK(last->result->high == it.high);
    }
  }
}

}  // namespace
}  // namespace crumb::exporting::hls4ml

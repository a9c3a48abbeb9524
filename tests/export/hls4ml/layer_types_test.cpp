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

}  // namespace
}  // namespace crumb::exporting::hls4ml

// Fixes that make thresholds: where their channels are, and of what type they are.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "export/lint/lint.h"
#include "export/lint/subject.h"
#include "graph/datatypes.h"
#include "graph/onnx/infer_shapes.h"
#include "tests/graph/node_builder.h"
#include "tests/support/capture_copy.h"

namespace crumb::exporting {
namespace {

using Ints = std::vector<std::int64_t>;

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

}  // namespace
}  // namespace crumb::exporting

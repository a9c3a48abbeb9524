// Biases as hls4ml takes them: one power of two for all, whatever scales and zero point they were quantized with.
#include "export/hls4ml/plain_biases.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "graph/edit.h"
#include "graph/facts/constant_values.h"
#include "graph/onnx/infer_shapes.h"
#include "tests/graph/node_builder.h"
#include "tests/support/capture_copy.h"

namespace crumb::exporting::hls4ml {
namespace {

using graph::Tensor;
using S = std::string;

/// A quantizer of constants, taken as `finish` says; the quantizer is the graph's first node.
struct Bias : graph::NodeBuilder {
  std::vector<float> values;
  S made;
  Bias(std::vector<float> numbers, const Tensor& scale, float zero, float bits, bool is_signed = true)
      : values(std::move(numbers)) {
    const auto count = static_cast<std::int64_t>(values.size());
    made = quant(constant("b", Tensor::floats({count}, values)), scale, zero, bits, is_signed);
  }
  /// As the term of a sum.
  graph::Graph added() {
    graph.outputs = {node("Add", {input("x", {1, static_cast<std::int64_t>(values.size())}), made})};
    return graph::infer_shapes(graph);
  }
};

float parameter(const graph::Graph& graph, std::size_t i) {
  const Tensor* constant = graph::constant_input(graph, graph.nodes.at(0), i);
  REQUIRE(constant != nullptr);
  REQUIRE(constant->rank() == 0);
  return constant->to_floats()[0];
}

/// What the first quantizer makes.
std::vector<double> values_of(const graph::Graph& graph) {
  return graph::ConstantValues(graph).find(graph.nodes.at(0).outputs[0])->values;
}

TEST_CASE("plain biases: the same numbers, out of the coarsest power of two and the least symmetric width") {
  struct Case {
    std::vector<float> numbers;
    std::vector<float> scale;
    float zero, bits;
    bool is_signed;
    float wanted_scale, wanted_bits;
  };
  // Numbers that the quantizer keeps: codes less the zero point, times the scale.
  for (const Case& it :
       std::vector<Case>{{{1, -2, 3}, {1}, 0, 8, true, 1, 3},  // 3 of 3 bits
                         {{1, -2, 4}, {1}, 0, 8, true, 1, 4},  // 4 is none of 3 bits, symmetric or not
                         {{1, -4, 3}, {1}, 0, 8, true, 1, 4},  // -4 is none of 3 bits that are symmetric
                         {{2, -4, 6}, {1}, 0, 8, true, 2, 3},  // a coarser step
                         {{0.5F, -1.5F, 0}, {0.5F}, 0, 8, true, 0.5F, 3},
                         {{0.5F, -3, 0.25F}, {0.5F, 1, 0.25F}, 0, 8, true, 0.25F, 5},  // 12 quarters
                         {{5, 3, 10}, {1}, 3, 4, false, 1, 5},  // a zero point that is none any more
                         {{0.75F, 0.75F, 0.75F}, {0.75F}, 0, 2, true, 0.25F, 3},
                         {{1, 1, 1}, {1}, 0, 8, true, 1, 2},  // never less than two bits
                         {{0, 0, 0}, {1}, 0, 8, true, 1, 2}}) {
    CAPTURE(it.numbers);
    Bias bias(it.numbers, it.scale.size() == 1 ? Tensor::scalar(it.scale[0]) : Tensor::floats({3}, it.scale),
              it.zero, it.bits, it.is_signed);
    const graph::Graph before = bias.added();
    REQUIRE(values_of(before) == std::vector<double>(it.numbers.begin(), it.numbers.end()));
    const graph::Graph after = with_plain_biases(before);
    CHECK(values_of(after) == values_of(before));
    CHECK(parameter(after, 1) == it.wanted_scale);
    CHECK(parameter(after, 2) == 0);
    CHECK(parameter(after, 3) == it.wanted_bits);
    const graph::Node& quantizer = after.nodes[0];
    CHECK(quantizer.int_or("signed", -1) == 1);
    CHECK(quantizer.int_or("narrow", -1) == 1);
    CHECK(quantizer.text_or("rounding_mode", "") == "ROUND");
    for (const auto& [name, tensor] : after.initializers) {  // nothing is left of what was
      CHECK(std::ranges::any_of(after.nodes, [&name = name](const graph::Node& node) {
        return std::ranges::find(node.inputs, name) != node.inputs.end();
      }));
    }
  }
}

TEST_CASE("plain biases: numbers of more than 32 bits stay as they are") {
  for (const int exponent : {29, 30, 31, 40}) {
    Bias bias({1, std::ldexp(1.0F, exponent)},
              Tensor::floats({2}, std::vector<float>{1, std::ldexp(1.0F, exponent)}), 0, 8);
    const graph::Graph after = with_plain_biases(bias.added());
    CHECK(parameter(after, 3) == (exponent <= 30 ? static_cast<float>(exponent + 2) : 8));
  }
}

TEST_CASE("plain biases: only what is added, and nothing else") {
  const std::vector<std::pair<bool, std::function<S(Bias&, const S& image, const S& kernel)>>> all{
      {true,
       [](Bias& b, const S& x, const S& w) {
         return b.node("Conv", {x, w, b.made});
       }},
      {true,
       [](Bias& b, const S& x, const S& w) {
         return b.node("ConvTranspose", {x, w, b.made});
       }},
      {true,
       [](Bias& b, const S& x, const S& w) {
         return b.node("Add", {b.node("Conv", {x, w, b.made}), b.made});
       }},
      {true,
       [](Bias& b, const S& x, const S&) {
         return b.node("Add", {b.made, x});
       }},
      {false,
       [](Bias& b, const S& x, const S&) {
         return b.node("Mul", {x, b.made});
       }},
      {false,
       [](Bias& b, const S& x, const S&) {
         return b.node("Mul", {b.node("Add", {x, b.made}), b.made});
       }},
      {false, [](Bias& b, const S&, const S&) { return b.made; }},  // nothing takes it
      {false,
       [](Bias& b, const S& x, const S& w) {
         const S as_kernel = b.node(
             "Reshape", {b.made, b.constant("to", Tensor::ints({4}, std::vector<std::int64_t>{1, 1, 1, 1}))});
         return b.node("Mul", {b.node("Conv", {x, as_kernel}), w});
       }},
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    Bias bias({3}, Tensor::floats({1}, std::vector<float>{3}), 0, 4);
    const S w = bias.quant(bias.constant("w", Tensor::floats({1, 1, 1, 1}, std::vector<float>{3})),
                           Tensor::scalar(3.0F), 0, 4);
    const S x = bias.input("x", {1, 1, 2, 2});
    bias.graph.outputs = {all[i].second(bias, x, w)};
    const graph::Graph before = graph::infer_shapes(bias.graph), after = with_plain_biases(before);
    const Tensor* scale = graph::constant_input(after, after.nodes.at(0), 1);
    REQUIRE(scale != nullptr);
    CHECK((scale->to_floats()[0] == 1) == all[i].first);
    // A weight is none, be it a convolution's.
    const auto weight =
        std::ranges::find(after.nodes, w, [](const graph::Node& node) { return node.outputs[0]; });
    if (weight != after.nodes.end()) CHECK(graph::constant_input(after, *weight, 1)->to_floats()[0] == 3);
  }
  // One value as kernel and as bias is no bias.
  graph::NodeBuilder net;
  const S both = net.quant(net.constant("b", Tensor::floats({1, 1, 1, 1}, std::vector<float>{3})),
                           Tensor::scalar(3.0F), 0, 4);
  net.graph.outputs = {net.node("Conv", {net.input("x", {1, 1, 2, 2}), both, both})};
  CHECK(parameter(with_plain_biases(net.graph), 1) == 3);
}

}  // namespace
}  // namespace crumb::exporting::hls4ml

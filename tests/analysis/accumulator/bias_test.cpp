// Which constants behind a product are its bias: those that an Add alone puts on the axis of the output channels.
#include <doctest/doctest.h>

#include <numeric>

#include "analysis/accumulator/layers.h"
#include "tests/analysis/accumulator/networks.h"

namespace crumb::analysis {
namespace {

using Ints = std::vector<std::int64_t>;
using graph::BiasPlace;

/// Inputs and weights that are quantized with a scale of 1/2 each, and what a quantizer of 1/4 makes of 1/4, 1/2, ...
struct Sums : Net {
  std::string x(const Ints& shape) { return quant(input("x", shape), graph::Tensor::scalar(0.5F), 0, 3); }
  std::string w(const Ints& shape) { return weight(shape, 0.5F); }
  std::string constant_of(const Ints& shape) {
    std::vector<float> values(static_cast<std::size_t>(graph::count_elements(shape).take()));
    std::iota(values.begin(), values.end(), 1.0F);
    for (float& value : values) value *= 0.25F;
    return quant(constant("c", graph::Tensor::floats(shape, values)), graph::Tensor::scalar(0.25F), 0, 16);
  }
  BiasPlace place() {
    const ProductLayers layers(graph::infer_shapes(graph));
    REQUIRE(layers.size() == 1);
    const ProductLayer layer = layers.layer(0);
    REQUIRE(layer.failure() == "");
    CHECK((layer.bias_codes.size() == layer.channels) == (layer.bias == BiasPlace::kInside));
    return layer.bias;
  }
};

std::string on_the_right(Sums& net) { return net.node("MatMul", {net.x({4, 3}), net.w({3, 4})}); }
std::string on_the_left(Sums& net) { return net.node("MatMul", {net.w({4, 3}), net.x({3, 4})}); }
std::string of_two_columns(Sums& net) { return net.node("MatMul", {net.x({2, 3}), net.w({3, 2})}); }
std::string convolved(Sums& net) { return net.node("Conv", {net.x({1, 2, 4, 4}), net.w({4, 2, 1, 1})}); }
std::string transposed(Sums& net) {
  return net.node("ConvTranspose", {net.x({1, 2, 4, 4}), net.w({2, 4, 1, 1})});
}
std::string channels_last(Sums& net) {
  return net.node("Conv", {net.x({1, 4, 4, 2}), net.w({4, 1, 1, 2})}, {}, graph::kChannelsLastDomain);
}
std::string equation(Sums& net) {
  return net.node("Einsum", {net.x({4, 3}), net.w({3, 4})}, {{"equation", std::string("ij,jk->ik")}});
}

struct BiasCase {
  std::string (*product)(Sums&);
  std::vector<Ints> on_channels, elsewhere;
};

TEST_CASE("a constant is the bias of a product where it lies on the output channels, or is one number") {
  const std::vector<BiasCase> all{
      {on_the_right, {{}, {1}, {4}, {1, 4}}, {{4, 1}, {4, 4}, {4, 1, 1}}},
      {on_the_left, {{}, {1}, {4, 1}, {1, 4, 1}}, {{4}, {1, 4}, {4, 4}}},
      {of_two_columns, {{}, {2}, {1, 2}}, {{2, 1}, {2, 2}}},
      {convolved, {{}, {1}, {4, 1, 1}, {1, 4, 1, 1}}, {{4}, {1, 4}, {4, 1}, {1, 4, 1}, {1, 4, 4, 4}}},
      {transposed, {{}, {1}, {4, 1, 1}, {1, 4, 1, 1}}, {{4}, {1, 4}, {4, 1}, {1, 4, 1}, {1, 4, 4, 4}}},
      {channels_last, {{}, {4}, {1, 1, 4}}, {{4, 1}, {4, 1, 1}, {1, 4, 4, 4}}},
      {equation, {}, {{}, {4}, {4, 1}}},
  };
  for (std::size_t kind = 0; kind < all.size(); ++kind) {
    for (const bool is_on : {true, false}) {
      for (const Ints& shape : is_on ? all[kind].on_channels : all[kind].elsewhere) {
        for (const bool swapped : {false, true}) {
          CAPTURE(kind);
          CAPTURE(shape);
          Sums net;
          std::vector<std::string> operands{all[kind].product(net), net.constant_of(shape)};
          if (swapped) std::swap(operands[0], operands[1]);
          net.graph.outputs = {net.node("Add", operands)};
          CHECK(net.place() == (is_on ? BiasPlace::kInside : BiasPlace::kNone));
        }
      }
    }
  }
}

TEST_CASE("a constant is no bias where something else takes the product too, or it is not added") {
  const auto place = [](void (*make)(Sums&, const std::string&)) {
    Sums net;
    make(net, on_the_right(net));
    return net.place();
  };
  using S = std::string;
  CHECK(place([](Sums& n, const S& y) {
          n.graph.outputs = {n.node("Add", {y, n.constant_of({4})})};
        }) == BiasPlace::kInside);
  CHECK(place([](Sums& n, const S& y) {
          n.graph.outputs = {n.node("Mul", {y, n.constant_of({4})})};
        }) == BiasPlace::kNone);
  CHECK(place([](Sums& n, const S& y) {
          n.graph.outputs = {n.node("Sub", {y, n.constant_of({4})})};
        }) == BiasPlace::kNone);
  CHECK(place([](Sums& n, const S& y) {
          n.graph.outputs = {n.node("Add", {y, n.constant_of({4})}), y};
        }) == BiasPlace::kNone);
  CHECK(place([](Sums& n, const S& y) {
          n.graph.outputs = {n.node("Add", {y, n.constant_of({4})}), n.node("Relu", {y})};
        }) == BiasPlace::kNone);
  CHECK(place([](Sums& n, const S& y) {
          n.graph.outputs = {n.node("Add", {y, n.input("other", {4})})};
        }) == BiasPlace::kNone);
  // A constant that nothing here computes.
  CHECK(place([](Sums& n, const S& y) {
          n.graph.outputs = {n.node("Add", {y, n.node("Erf", {n.constant_of({4})})})};
        }) == BiasPlace::kNone);
}

TEST_CASE(
    "a constant that a Gemm multiplies is added behind the register; beside a product that it multiplies it "
    "is added to other numbers than the sums, in one node or in three") {
  for (const float alpha : {1.0F, 0.5F, 2.0F}) {
    for (const float beta : {1.0F, 0.5F, 2.0F}) {
      Sums net;
      net.graph.outputs = {net.node("Gemm", {net.x({4, 3}), net.w({3, 4}), net.constant_of({4})},
                                    {{"alpha", alpha}, {"beta", beta}})};
      CAPTURE(alpha);
      CAPTURE(beta);
      CHECK(net.place() == (alpha != 1  ? BiasPlace::kNone
                            : beta == 1 ? BiasPlace::kInside
                                        : BiasPlace::kAfter));
    }
    Sums of_three;
    const std::string sums = of_three.node("MatMul", {of_three.x({4, 3}), of_three.w({3, 4})});
    of_three.graph.outputs = {of_three.node(
        "Add", {of_three.node("Mul", {sums, of_three.constant("factor", graph::Tensor::scalar(alpha))}),
                of_three.constant_of({4})})};
    CHECK(of_three.place() == BiasPlace::kNone);
  }
}

TEST_CASE("what is added to requantized sums is no bias of theirs") {
  Net net;
  const auto byte = [&](const char* name, int value) {
    return net.constant(name, graph::Tensor(graph::ElementType::kUint8, {}, {std::byte(value)}));
  };
  const auto scale = [&](const char* name) { return net.constant(name, graph::Tensor::scalar(0.5F)); };
  net.graph.inputs = {"x"};
  net.graph.values["x"] = {.type = graph::ElementType::kUint8, .shape = graph::Shape{2, 3}};
  const std::string w = net.constant(
      "w", graph::Tensor(graph::ElementType::kUint8, {3, 2}, std::vector<std::byte>(6, std::byte{5})));
  const std::string y = net.node("QLinearMatMul", {"x", scale("xs"), byte("xz", 3), w, scale("ws"),
                                                   byte("wz", 1), scale("ys"), byte("yz", 0)});
  const std::string added = net.constant(
      "added", graph::Tensor(graph::ElementType::kUint8, {2}, std::vector<std::byte>(2, std::byte{7})));
  net.graph.outputs = {net.node("Add", {y, added})};
  const ProductLayer layer = ProductLayers(graph::infer_shapes(net.graph)).layer(0);
  CHECK(layer.failure() == "");
  CHECK(layer.bias == BiasPlace::kNone);
}

}  // namespace
}  // namespace crumb::analysis

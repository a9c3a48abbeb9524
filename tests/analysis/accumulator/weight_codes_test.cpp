// The codes of weights that a quantizer makes and nodes behind it multiply, divide, reshape and transpose.
#include <doctest/doctest.h>

#include <cmath>

#include "analysis/accumulator/layers.h"
#include "tests/analysis/accumulator/networks.h"

namespace crumb::analysis {
namespace {

using Ints = std::vector<std::int64_t>;

enum class Factors { kOne, kColumns, kRows, kElements };

TEST_CASE("codes times scales are the weights, whatever folds into the scales") {
  // Scales and factors are powers of two, so every value is exact.
  std::size_t apart = 0, deep = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    Net net;
    net.engine.seed(seed);
    const auto draw = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(net.engine);
    };
    const auto power = [&] { return std::exp2(static_cast<float>(draw(-3, 3))); };
    const std::int64_t rows = draw(2, 4), columns = draw(2, 5);
    const auto place = [&](std::int64_t r, std::int64_t c) {
      return static_cast<std::size_t>(r * columns + c);
    };
    const auto elements = static_cast<std::size_t>(rows * columns);
    const auto factors = [&](Factors kind) {
      const Ints shape = kind == Factors::kOne       ? Ints{}
                         : kind == Factors::kColumns ? Ints{1, columns}
                         : kind == Factors::kRows    ? Ints{rows, 1}
                                                     : Ints{rows, columns};
      std::vector<float> values(static_cast<std::size_t>(graph::count_elements(shape).take()));
      for (float& value : values) value = power();
      return graph::Tensor::floats(shape, values);
    };
    const auto at = [&](const graph::Tensor& tensor, std::int64_t r, std::int64_t c) {
      const Ints shape = tensor.shape();
      if (shape.empty()) return tensor.to_floats()[0];
      return tensor.to_floats()[static_cast<std::size_t>((shape[0] == 1 ? 0 : r) * shape[1] +
                                                         (shape[1] == 1 ? 0 : c))];
    };
    const graph::Tensor scale = factors(draw(0, 1) == 0 ? Factors::kOne : Factors::kColumns);
    std::vector<float> codes(elements), values(elements), expected(elements);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        codes[place(r, c)] = static_cast<float>(draw(-7, 7));
        expected[place(r, c)] = values[place(r, c)] = codes[place(r, c)] * at(scale, r, c);
      }
    }
    std::string w = net.quant(net.constant("w", graph::Tensor::floats({rows, columns}, values)), scale, 0, 4);
    bool by_row = false;
    const int steps = draw(0, 3);
    for (int i = 0; i < steps; ++i) {
      const std::string name = "f" + std::to_string(i);
      if (draw(0, 3) == 0) {
        const std::string flat = net.constant(name + "_flat", graph::Tensor::ints({1}, Ints{rows * columns}));
        const std::string back = net.constant(name + "_back", graph::Tensor::ints({2}, Ints{rows, columns}));
        w = net.node("Reshape", {net.node("Reshape", {w, flat}), back});
        ++deep;
        continue;
      }
      const auto kind = static_cast<Factors>(draw(0, 3));
      by_row = by_row || kind == Factors::kRows || kind == Factors::kElements;
      const graph::Tensor factor = factors(kind);
      const bool divides = draw(0, 1) == 0;
      net.constant(name, factor);
      const bool swapped = !divides && draw(0, 1) == 0;
      w = net.node(divides ? "Div" : "Mul", swapped ? std::vector{name, w} : std::vector{w, name});
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
          const float by = at(factor, r, c);
          expected[place(r, c)] = divides ? expected[place(r, c)] / by : expected[place(r, c)] * by;
        }
      }
    }
    const std::string x = net.quant(net.input("x", {1, rows}), graph::Tensor::scalar(0.5F), 0, 3);
    net.graph.outputs = {net.node("MatMul", {x, w})};
    const ProductLayer layer = ProductLayers(graph::infer_shapes(net.graph)).layer(0);
    CHECK(layer.failure() == "");
    REQUIRE(layer.codes.size() == elements);
    const auto length = static_cast<std::size_t>(rows);
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto channel = static_cast<std::size_t>(c);
      for (std::int64_t r = 0; r < rows; ++r) {
        CHECK(layer.codes[channel * length + static_cast<std::size_t>(r)] ==
              static_cast<std::int64_t>(codes[place(r, c)]));
        if (layer.one_scale && expected[place(r, c)] != 0) {
          CHECK(layer.scale[channel] * static_cast<double>(codes[place(r, c)]) == expected[place(r, c)]);
        }
      }
    }
    CHECK(layer.one_scale == !by_row);
    if (!by_row) continue;
    ++apart;  // terms of different scales are added up apart
    for (std::size_t c = 0; c < layer.channels; ++c) {
      const auto registers = layer.registers(c, 0);
      for (std::size_t r = 0; r < length; ++r) CHECK(registers[r] == r);
    }
  }
  CHECK(apart > 100);
  CHECK(deep > 100);
}

TEST_CASE("what is multiplied by 0, by less, or by what is no number has no codes") {
  for (const float factor : {0.0F, -0.5F, std::nanf("")}) {
    Net net;
    const std::string x = net.quant(net.input("x", {1, 3}), graph::Tensor::scalar(0.5F), 0, 3);
    const std::string f = net.constant("f", graph::Tensor::floats({1, 2}, std::vector<float>{1, factor}));
    net.graph.outputs = {net.node("MatMul", {x, net.node("Mul", {net.weight({3, 2}, 0.5F), f})})};
    CHECK_FALSE(ProductLayers(graph::infer_shapes(net.graph)).layer(0).has_codes());
  }
  // What is divided by a weight is none.
  Net net;
  const std::string x = net.quant(net.input("x", {1, 3}), graph::Tensor::scalar(0.5F), 0, 3);
  const std::string one = net.constant("one", graph::Tensor::floats({3, 2}, std::vector<float>(6, 1.0F)));
  const std::string twos = net.constant("twos", graph::Tensor::floats({3, 2}, std::vector<float>(6, 2.0F)));
  net.graph.outputs = {
      net.node("MatMul", {x, net.node("Div", {one, net.quant(twos, graph::Tensor::scalar(0.5F), 0, 4)})})};
  CHECK_FALSE(ProductLayers(graph::infer_shapes(net.graph)).layer(0).has_codes());
}

}  // namespace
}  // namespace crumb::analysis

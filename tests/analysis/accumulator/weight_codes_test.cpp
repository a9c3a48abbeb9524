// The codes of weights that a quantizer makes and nodes behind it multiply, divide, reshape and transpose.
#include <doctest/doctest.h>

#include <cmath>

#include "analysis/accumulator/layers.h"
#include "tests/analysis/accumulator/networks.h"
#include "tests/support/capture_copy.h"
#include "tests/support/samples.h"

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

/// What the layer of a product with this weight is; the weight is [3, 2].
ProductLayer layer_with(Net& net, const std::string& w) {
  const std::string x = net.quant(net.input("x", {1, 3}), graph::Tensor::scalar(0.5F), 0, 3);
  net.graph.outputs = {net.node("MatMul", {x, w})};
  return ProductLayers(graph::infer_shapes(net.graph)).layer(0);
}

TEST_CASE("a reshape behind a factor gives the weight its shape") {
  const std::vector<float> codes{1, -2, 3, 4, -5, 6};
  for (const Ints& stored : {Ints{6}, Ints{2, 3}, Ints{1, 6, 1}, Ints{3, 2}}) {
    CAPTURE(stored);
    Net net;
    const std::string q =
        net.quant(net.constant("w", graph::Tensor::floats(stored, codes)), graph::Tensor::scalar(1.0F), 0, 4);
    const std::string scaled = net.node("Mul", {q, net.constant("half", graph::Tensor::scalar(0.5F))});
    const std::string shape = net.constant("shape", graph::Tensor::ints({2}, Ints{3, 2}));
    const ProductLayer layer = layer_with(net, net.node("Reshape", {scaled, shape}));
    CHECK(layer.failure() == "");
    CHECK(layer.weight_shape == Ints{3, 2});
    CHECK(layer.codes == Ints{1, 3, -5, -2, 4, 6});
    CHECK(layer.scale == std::vector<double>{0.5, 0.5});
  }
}

TEST_CASE("weights that no quantizer made are float, whatever simple nodes made them") {
  const auto reshaped = [](Net& net, const std::string& w) {
    return net.node("Reshape", {w, net.constant("shape", graph::Tensor::ints({2}, Ints{3, 2}))});
  };
  for (int kind = 0; kind < 5; ++kind) {
    CAPTURE(kind);
    Net net;
    const std::string w = net.constant("w", graph::Tensor::floats({3, 2}, std::vector<float>(6, 0.3F)));
    const std::string two = net.constant("two", graph::Tensor::scalar(2.0F));
    const std::string q =
        net.quant(net.constant("halves", graph::Tensor::floats({3, 2}, std::vector<float>(6, 1.5F))),
                  graph::Tensor::scalar(0.5F), 0, 4);
    const ProductLayer layer = layer_with(net, kind == 0   ? reshaped(net, w)
                                               : kind == 1 ? reshaped(net, net.node("Mul", {w, two}))
                                               : kind == 2 ? net.node("Add", {w, two})
                                               : kind == 3 ? net.node("Add", {q, w})
                                                           : net.node("Neg", {q}));
    CHECK(layer.weight_failure == "no quantizer makes its weights");
    CHECK(layer.is_float);
  }
}

TEST_CASE("weights between the integers count in halves, in as many bits as there are") {
  for (const float bits : {4.0F, 12.0F}) {
    CAPTURE(bits);
    Net net;
    const std::vector<float> levels{0.5F, -1.5F, 2.5F, -0.5F, 3.5F, -2.5F};
    std::vector<float> values;
    for (const float level : levels) values.push_back(level * 0.25F);
    const std::string w = net.constant("w", graph::Tensor::floats({3, 2}, values));
    const ProductLayer layer = layer_with(net, net.quant(w, graph::Tensor::scalar(0.25F), -0.5F, bits));
    CHECK(layer.failure() == "");
    CHECK(layer.unit == 0.5);
    CHECK(layer.codes == Ints{1, 5, 7, -3, -1, -5});
  }
}

TEST_CASE("codes up to 2^53 are exact, and no others are counted") {
  for (const auto& [size, counted] :
       {std::pair{0x1p52F, true}, {0x1p53F, true}, {-0x1p53F, true}, {0x1p54F, false}}) {
    CAPTURE_COPY(size);
    Net net;
    const std::string w = net.constant("w", graph::Tensor::floats({1, 2}, std::vector<float>{size, 1}));
    const ProductLayer layer = layer_with(net, net.quant(w, graph::Tensor::scalar(1.0F), 0, 60));
    CHECK(layer.failure().empty() == counted);
    if (counted) CHECK(layer.codes[0] == static_cast<std::int64_t>(size));
  }
}

/// A minifloat of three exponent bits, one mantissa bit and bias 2, whose smallest subnormal is 1/4.
std::string float_quant(Net& net, const std::string& w, const graph::Tensor& scale, bool saturates = true) {
  std::vector<std::string> inputs{w, net.constant("scale", scale)};
  for (const float parameter : {3.0F, 1.0F, 2.0F, 12.0F})
    inputs.push_back(net.constant("p" + std::to_string(inputs.size()), graph::Tensor::scalar(parameter)));
  return net.node("FloatQuant", inputs,
                  {{"has_inf", std::int64_t{0}},
                   {"has_nan", std::int64_t{!saturates}},
                   {"saturation", std::int64_t{saturates}},
                   {"rounding_mode", std::string("ROUND")}},
                  graph::kQonnxDomain);
}

TEST_CASE("FloatQuant's scales, one or one for each row or column, are those of the codes") {
  const std::vector<float> levels{0.25F, 0.5F, -0.75F, 1.5F, -6, 1};
  for (const Ints& shape : {Ints{}, Ints{1, 2}, Ints{3, 1}}) {
    CAPTURE(shape);
    const std::size_t scales = static_cast<std::size_t>(graph::count_elements(shape).take());
    std::vector<float> numbers{0.5F, 2, 8}, values;
    numbers.resize(scales);
    const bool by_row = shape == Ints{3, 1};
    for (std::size_t i = 0; i < 6; ++i)
      values.push_back(levels[i] * numbers[scales == 1 ? 0 : by_row ? i / 2 : i % 2]);
    Net net;
    const std::string w = net.constant("w", graph::Tensor::floats({3, 2}, values));
    const ProductLayer layer = layer_with(net, float_quant(net, w, graph::Tensor::floats(shape, numbers)));
    CHECK(layer.failure() == "");
    CHECK(layer.unit == 0.25);
    CHECK(layer.codes == Ints{1, -3, -24, 2, 6, 4});
    CHECK(layer.one_scale == !by_row);
    if (!by_row) CHECK(layer.scale == std::vector<double>{numbers.front(), numbers.back()});
    for (std::size_t r = 0; r < 3; ++r) CHECK(layer.registers(0, 0)[r] == (by_row ? r : 0));
  }
}

TEST_CASE("so many reshapes behind a FloatQuant are looked through, and no more") {
  for (const int steps : {0, 1, 7, 8, 9}) {
    CAPTURE(steps);
    Net net;
    const std::string shape = net.constant("shape", graph::Tensor::ints({2}, Ints{3, 2}));
    std::string w =
        float_quant(net, net.constant("w", graph::Tensor::floats({3, 2}, std::vector<float>(6, 0.5F))),
                    graph::Tensor::scalar(0.5F));
    for (int i = 0; i < steps; ++i) w = net.node("Reshape", {w, shape});
    const ProductLayer layer = layer_with(net, w);
    CHECK(layer.has_codes() == (steps <= 8));
    if (layer.has_codes()) CHECK(layer.codes == Ints(6, 4));
  }
}

TEST_CASE("a FloatQuant whose numbers are on no known grid makes no codes") {
  Net net;
  const std::string w = net.constant("w", graph::Tensor::floats({3, 2}, std::vector<float>(6, 0.5F)));
  const ProductLayer layer = layer_with(net, float_quant(net, w, graph::Tensor::scalar(0.5F), false));
  CHECK(layer.weight_failure == "its FloatQuant has no grid of known numbers");
  CHECK_FALSE(layer.is_float);
}

TEST_CASE("every channel has the scale of its row, where a row is one weight too") {
  for (const std::int64_t channels : {1, 2, 6}) {
    for (const std::int64_t inputs : {1, 2, 3}) {
      Net net;
      const auto count = static_cast<std::size_t>(channels * inputs);
      const graph::Tensor w =
          graph::Tensor::floats({channels, inputs, 1, 1}, testing::normal_values(count, 8));
      const auto& made = net.graph.quantized["w"] =
          quantize_constant(QuantSpec::parse("int4:channel"), w, 0, "w");
      net.graph.values["w"] = value_of(w);
      const std::string x = net.quant(net.input("x", {1, inputs, 3, 3}), graph::Tensor::scalar(0.5F), 0, 3);
      net.graph.outputs = {net.node("Conv", {x, "w"})};
      const ProductLayer layer = ProductLayers(net.graph).layer(0);
      REQUIRE(layer.scale.size() == static_cast<std::size_t>(channels));
      const RowDecoder decoder(made.tensor->view());
      for (std::size_t c = 0; c < layer.scale.size(); ++c)
        CHECK(layer.scale[c] * layer.unit == static_cast<double>(decoder.scale(c)));
    }
  }
}

TEST_CASE("groups that lie across a layer's rows leave each term a scale of its own") {
  Net net;
  const graph::Tensor w = graph::Tensor::floats({6, 6}, testing::normal_values(36, 8));
  net.graph.quantized["w"] = quantize_constant(QuantSpec::parse("int4:group=2"), w, 0, "w");
  net.graph.values["w"] = value_of(w);
  const std::string x = net.quant(net.input("x", {1, 6}), graph::Tensor::scalar(0.5F), 0, 3);
  net.graph.outputs = {net.node("MatMul", {x, "w"})};
  const ProductLayer layer = ProductLayers(net.graph).layer(0);
  CHECK_FALSE(layer.one_scale);
  for (std::size_t channel = 0; channel < 6; ++channel)
    CHECK(layer.registers(channel, 0) == std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5});
}

}  // namespace
}  // namespace crumb::analysis

// Ranges of sums, products with constants and functions of one number, counted by hand.
#include <doctest/doctest.h>

#include <cmath>

#include "graph/facts/level_arithmetic.h"
#include "tests/graph/facts/range_net.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;
using Inputs = std::vector<std::string>;
using Attributes = std::map<std::string, Attribute>;

/// Of levels -4..3 times `scale`, less a zero point.
ValueType of(const std::string& op, const std::function<Inputs(RangeNet&, std::string)>& inputs,
             const Attributes& attributes = {}, std::int64_t version = 13, float scale = 0.5F,
             float zero = 0) {
  return known_of([&](RangeNet& net) {
    return net.at_version(version, op, inputs(net, net.quantized({2, 3}, scale, zero, 3, true)), attributes);
  });
}

Inputs alone(RangeNet&, const std::string& x) { return {x}; }

std::function<Inputs(RangeNet&, std::string)> before(const std::vector<float>& values) {
  return [=](RangeNet& net, const std::string& x) {
    return Inputs{x, net.floats({static_cast<std::int64_t>(values.size())}, values)};
  };
}

std::function<Inputs(RangeNet&, std::string)> behind(const std::vector<float>& values) {
  return [=](RangeNet& net, const std::string& x) {
    return Inputs{net.floats({static_cast<std::int64_t>(values.size())}, values), x};
  };
}

void check_range(const ValueType& known, double low, double high, double scale = 0.5, bool halves = false) {
  REQUIRE(known.levels);
  CHECK(known.levels->low == low);
  CHECK(known.levels->high == high);
  CHECK(known.levels->scale == scale);
  CHECK(known.levels->halves == halves);
}

TEST_CASE("ranges of sums with constants, on either side") {
  check_range(of("Add", before({1, -0.5F, 2})), -5, 7);
  check_range(of("Add", behind({1, -0.5F, 2})), -5, 7);
  check_range(of("Sub", before({1, -0.5F, 2})), -8, 4);
  check_range(of("Sub", behind({1, -0.5F, 2})), -4, 8);
  CHECK_FALSE(of("Add", before({0.3F})).levels);
  CHECK(of("Add", before({1})).type == DataType::float32());  // the constant has no type of integers
  // Halves: levels -4.5..2.5.
  check_range(of("Add", before({1, -0.5F, 0}), {}, 13, 0.5F, 0.5F), -5.5, 4.5, 0.5, true);
  check_range(of("Add", behind({1, -0.5F, 0}), {}, 13, 0.5F, 0.5F), -5.5, 4.5, 0.5, true);
  check_range(of("Sub", before({1, -0.5F, 0}), {}, 13, 0.5F, 0.5F), -6.5, 3.5, 0.5, true);
  check_range(of("Sub", behind({1, -0.5F, 0}), {}, 13, 0.5F, 0.5F), -3.5, 6.5, 0.5, true);
  check_range(of("Add", before({0.25F}), {}, 13, 0.5F, 0.5F), -4, 3);  // half a step: whole again
  CHECK_FALSE(of("Add", before({0.3F}), {}, 13, 0.5F, 0.5F).levels);
  const auto open = [](RangeNet& net, const std::string& x) { return Inputs{x, net.input("o", {2, 3})}; };
  CHECK_FALSE(of("Add", open, {}, 13, 0.5F, 0.5F).levels);
}

TEST_CASE("types of sums and products are those of all operands") {
  const auto open = [](RangeNet& net, const std::string& x) { return Inputs{net.input("o", {2, 3}), x}; };
  const auto turned = [](RangeNet& net, const std::string& x) { return Inputs{x, net.input("o", {2, 3})}; };
  const auto same = [](RangeNet&, const std::string& x) { return Inputs{x, x}; };
  for (const char* op : {"Add", "Sub", "Mul"}) {
    CHECK(of(op, open).type == DataType::float32());
    CHECK(of(op, turned).type == DataType::float32());
    CHECK(of(op, same).type == DataType::scaled(32));
    CHECK(of(op, same, {}, 13, 1).type == DataType::integer(32, true));
  }
}

TEST_CASE("ranges of Sum and Mean") {
  const auto several = [](int count) {
    return [=](RangeNet& net, const std::string& x) {
      Inputs inputs{x};
      while (static_cast<int>(inputs.size()) < count)
        inputs.push_back(net.quantized({2, 3}, 0.5F, 0, 2, false));
      return inputs;
    };
  };
  for (int count = 1; count <= 4; ++count) {
    check_range(of("Sum", several(count)), -4, 3 * count);
    check_range(of("Mean", several(count)), -4, 3 * count, 0.5 / count);
  }
  check_range(of("Sum", before({1})), -2, 5);
  check_range(of("Sum", behind({1})), -2, 5);
  check_range(of("Mean", behind({1})), -2, 5, 0.25);
  CHECK_FALSE(of("Sum", before({0.3F})).levels);
  CHECK_FALSE(of("Sum", [](RangeNet& net, const std::string& x) {
                return Inputs{x, net.quantized({2, 3}, 0.25F, 0, 2, false)};
              }).levels);
  CHECK_FALSE(of("Sum", [](RangeNet& net, const std::string& x) {
                return Inputs{x, net.quantized({2, 3}, 0.5F, 0.5F, 2, false)};
              }).levels);
  CHECK_FALSE(of(
                  "Sum",
                  [](RangeNet& net, const std::string& x) {
                    return Inputs{x, net.quantized({2, 3}, 0.5F, 0.5F, 2, false)};
                  },
                  {}, 13, 0.5F, 0.5F)
                  .levels);
  CHECK(of("Sum", several(3), {}, 13, 0.5F).type == DataType::scaled(32));
  CHECK(of("Mean", several(3), {}, 13, 0.5F).type == DataType::float32());
}

TEST_CASE("ranges of products and quotients with constants") {
  check_range(of("Mul", before({2})), -4, 3, 1);
  check_range(of("Mul", behind({2})), -4, 3, 1);
  check_range(of("Mul", before({-2})), -3, 4, 1);
  check_range(of("Mul", before({-2, 2, 2})), -4, 4, 1);
  check_range(of("Div", before({2})), -4, 3, 0.25);
  check_range(of("Div", before({-4})), -3, 4, 0.125);
  CHECK_FALSE(of("Div", behind({2})).levels);
  CHECK_FALSE(of("Mul", before({0})).levels);
  CHECK_FALSE(of("Mul", before({2, 3, 2})).levels->one_scale);
  CHECK_FALSE(of("Mul", [](RangeNet& net, const std::string& x) {
                return Inputs{x, net.input("o", {2, 3})};
              }).levels);
  // Means that are on no grid reach as far.
  const auto mean = [](const std::string& op, const std::vector<float>& by) {
    return known_of([&](RangeNet& net) {
             const std::string x = net.quantized({1, 1, 4, 4}, 0.5F, 0, 3, true);
             const std::string pooled =
                 net.node("AveragePool", {x}, {{"kernel_shape", Ints{2, 2}}, {"ceil_mode", std::int64_t{1}}});
             return net.node(op, {pooled, net.floats({static_cast<std::int64_t>(by.size())}, by)});
           })
        .reach;
  };
  CHECK(mean("Mul", {2}) == Reach{-4, 3, false});
  CHECK(mean("Mul", {0.5F}) == Reach{-1, 0.75, false});
  CHECK(mean("Div", {4}) == Reach{-0.5, 0.375, false});
  for (const auto& by : std::vector<std::vector<float>>{{-2}, {0}, {2, 2, 2}, {INFINITY}, {NAN}})
    CHECK_FALSE(mean("Mul", by));
}

TEST_CASE("ranges of Neg, Abs, Sign and Relu") {
  check_range(of("Neg", alone), -3, 4);
  check_range(of("Abs", alone), 0, 4);
  check_range(of("Abs", alone, {}, 13, 0.5F, -6), 2, 9);
  check_range(of("Abs", alone, {}, 13, 0.5F, 6), 3, 10);
  check_range(of("Abs", alone, {}, 13, 0.5F, 0.5F), 0.5, 4.5, 0.5, true);
  check_range(of("Abs", alone, {}, 13, -0.5F), -4, 4, -0.5);
  CHECK(of("Sign", alone).type == DataType::ternary());
  check_range(of("Relu", alone), 0, 3);
  check_range(of("Relu", alone, {}, 13, 0.5F, -6), 2, 9);
  check_range(of("Relu", alone, {}, 13, 0.5F, 6), 0, 0);
  check_range(of("Relu", alone, {}, 13, 0.5F, 0.5F), 0, 5, 0.25);  // zero is no odd half
  check_range(of("Relu", alone, {}, 13, -0.5F), -4, 3, -0.5);
  check_range(of("Relu", alone, {}, 13, -0.5F, 6), -10, 0, -0.5);
  const auto bipolar =
      known_of([](RangeNet& net) { return net.node("Relu", {net.quantized({2}, 1, 0, 1, true)}); });
  check_range(bipolar, 0, 1, 1);
  CHECK(bipolar.type == DataType::integer(1, false));
  const auto pooled = known_of([](RangeNet& net) {
    const std::string x = net.quantized({1, 1, 4, 4}, 0.5F, 0, 3, true);
    return net.node("Relu", {net.node("AveragePool", {x},
                                      {{"kernel_shape", Ints{2, 2}}, {"ceil_mode", std::int64_t{1}}})});
  });
  CHECK(pooled.reach == Reach{0, 1.5, false});
}

TEST_CASE("ranges of LeakyRelu and PRelu") {
  check_range(of("LeakyRelu", alone, {{"alpha", 2.0F}}), -8, 3);
  check_range(of("LeakyRelu", alone, {{"alpha", -2.0F}}), 0, 8);
  check_range(of("LeakyRelu", alone, {{"alpha", 0.25F}}), -4, 12, 0.125);
  check_range(of("LeakyRelu", alone, {{"alpha", -0.5F}}), 0, 6, 0.25);
  check_range(of("LeakyRelu", alone, {{"alpha", 0.0F}}), 0, 3);
  check_range(of("LeakyRelu", alone, {{"alpha", 4096.0F}}), -16384, 3);
  CHECK_FALSE(of("LeakyRelu", alone, {{"alpha", 4097.0F}}).levels);
  check_range(of("LeakyRelu", alone, {{"alpha", 0x1p-12F}}), -4, 12288, 0.5 / 4096);
  CHECK_FALSE(of("LeakyRelu", alone, {{"alpha", 0x1p-13F}}).levels);
  CHECK_FALSE(of("LeakyRelu", alone, {{"alpha", 0.3F}}).levels);
  CHECK_FALSE(of("LeakyRelu", alone).levels);  // 0.01F is one over no whole number
  check_range(of("PRelu", before({0.25F})), -4, 12, 0.125);
  check_range(of("PRelu", before({2, 2, 2})), -8, 3);
  check_range(of("PRelu", before({2, -3, 0})), -8, 12);
  CHECK_FALSE(of("PRelu", before({0.25F, 0.5F, 0.25F})).levels);
  CHECK_FALSE(of("PRelu", before({0.25F, 1, 2})).levels);
  CHECK_FALSE(of("PRelu", before({1, 2, 4097})).levels);
  CHECK_FALSE(of("PRelu", [](RangeNet& net, const std::string& x) {
                return Inputs{x, net.input("o", {3})};
              }).levels);
  CHECK_FALSE(of("LeakyRelu", alone, {{"alpha", 2.0F}}, 13, -0.5F).levels);
}

TEST_CASE("ranges of Clip, by attributes and by inputs") {
  const auto clipped = [](std::optional<float> low, std::optional<float> high, std::int64_t version,
                          float scale = 0.5F, float zero = 0) {
    return known_of([&](RangeNet& net) {
      Inputs inputs{net.quantized({2, 3}, scale, zero, 3, true)};
      Attributes attributes;
      if (version < 11) {
        if (low) attributes["min"] = *low;
        if (high) attributes["max"] = *high;
      } else {
        inputs.push_back(low ? net.number(*low) : "");
        if (high) inputs.push_back(net.number(*high));
      }
      return net.at_version(version, "Clip", inputs, attributes);
    });
  };
  const std::optional<float> none;
  for (const std::int64_t version : {6, 10, 11, 13}) {
    CAPTURE(version);
    check_range(clipped(-1.0F, 1.0F, version), -2, 2);
    check_range(clipped(-1.0F, none, version), -2, 3);
    check_range(clipped(none, 1.0F, version), -4, 2);
    check_range(clipped(none, none, version), -4, 3);
    check_range(clipped(-99.3F, 99.3F, version), -4, 3);  // cuts nothing off
    check_range(clipped(-2.0F, 1.5F, version), -4, 3);
    check_range(clipped(4.0F, 5.0F, version), 8, 8);
    check_range(clipped(-9.0F, -8.0F, version), -16, -16);
    CHECK_FALSE(clipped(-0.3F, 1.0F, version).levels);
    CHECK_FALSE(clipped(-1.0F, 0.3F, version).levels);
    CHECK_FALSE(clipped(1.0F, -1.0F, version).levels);
    CHECK_FALSE(clipped(NAN, 1.0F, version).levels);
    CHECK_FALSE(clipped(-1.0F, NAN, version).levels);
    CHECK_FALSE(clipped(-1.0F, 1.0F, version, -0.5F).levels);
    CHECK(clipped(-1.0F, 1.0F, version).type == DataType::scaled(3));
    CHECK(clipped(-1.0F, 1.0F, version, 1).type == DataType::integer(2, true));
    CHECK(clipped(0.0F, none, version, 1).type == DataType::integer(2, false));
    CHECK(clipped(none, none, version, 1).type == DataType::integer(3, true));
    CHECK(clipped(5.0F, 6.0F, version, 1).type == DataType::integer(3, false));
    CHECK(clipped(-0.3F, 1.0F, version, 1).type == DataType::float32());
    CHECK(clipped(NAN, 1.0F, version, 1).type == DataType::float32());
    CHECK(clipped(1.0F, -1.0F, version, 1).type == DataType::float32());
    CHECK(clipped(-1.0F, 1.0F, version, -0.5F).type == DataType::scaled(3));
  }
  CHECK_FALSE(of("Clip", [](RangeNet& net, const std::string& x) {
                return Inputs{x, net.input("o", {})};
              }).levels);
  CHECK_FALSE(known_of([](RangeNet& net) {
                return net.node("Clip", {net.input("x", {2}), net.number(0), net.number(1)});
              }).levels);
}

TEST_CASE("ranges of Cast") {
  const auto cast = [](ElementType to, float scale, float bits = 3, float zero = 0) {
    return known_of([&](RangeNet& net) {
      return net.node("Cast", {net.quantized({2, 3}, scale, zero, bits, true)},
                      {{"to", std::int64_t{onnx_number(to)}}});
    });
  };
  check_range(cast(ElementType::kDouble, 0.5F), -4, 3);
  CHECK_FALSE(cast(ElementType::kFloat16, 0.5F).levels);
  check_range(cast(ElementType::kInt8, 1), -4, 3, 1);
  check_range(cast(ElementType::kInt8, 0.5F), -128, 127, 1);
  check_range(cast(ElementType::kInt8, 1, 8), -128, 127, 1);
  check_range(cast(ElementType::kInt8, 1, 9), -128, 127, 1);
  check_range(cast(ElementType::kUint8, 1), 0, 255, 1);
  check_range(cast(ElementType::kUint8, 1, 3, -4), 0, 7, 1);
  check_range(cast(ElementType::kInt8, 1, 3, 0.5F), -128, 127, 1);
  CHECK(cast(ElementType::kInt8, 1).type == DataType::integer(8, true));
  const auto back = [](ElementType between, float bits) {
    return known_of([&](RangeNet& net) {
      const std::string codes = net.node("Cast", {net.quantized({2, 3}, 1, 0, bits, true)},
                                         {{"to", std::int64_t{onnx_number(between)}}});
      return net.node("Cast", {codes}, {{"to", std::int64_t{onnx_number(ElementType::kFloat)}}});
    });
  };
  check_range(back(ElementType::kInt8, 3), -4, 3, 1);
  check_range(back(ElementType::kInt32, 23), -4194304, 4194303, 1);
  CHECK_FALSE(back(ElementType::kInt32, 24).levels);
}

TEST_CASE("ranges of integers' own arithmetic") {
  const auto sum = [](const std::string& op, std::int64_t low, std::int64_t high) {
    return known_of([&](RangeNet& net) {
      const std::string codes = net.node("Cast", {net.quantized({2, 3}, 1, 0, 3, true)},
                                         {{"to", std::int64_t{onnx_number(ElementType::kInt64)}}});
      return net.node(op, {codes, net.ints({low, high, low})});
    });
  };
  check_range(sum("Add", -5, 9), -9, 12, 1);
  check_range(sum("Sub", -5, 9), -13, 8, 1);
  CHECK(sum("Mul", 2, 2).levels->low < -1e18);
  CHECK(sum("Div", 2, 2).levels->high > 1e18);
}

}  // namespace
}  // namespace crumb::graph

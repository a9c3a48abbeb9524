// Ranges of what quantizers make, against what they make of a sweep over their whole range.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "graph/facts/level_arithmetic.h"
#include "graph/qonnx/quant_arithmetic.h"
#include "tests/graph/facts/range_net.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;
using Attributes = std::map<std::string, Attribute>;

std::string quantizer(RangeNet& net, const std::string& op, const std::vector<Tensor>& parameters,
                      const Attributes& attributes, std::int64_t version = 1) {
  std::vector<std::string> inputs{net.input("x", {2, 4})};
  for (const Tensor& tensor : parameters)
    inputs.push_back(net.constant("p" + std::to_string(inputs.size()), tensor));
  return net.at_version(version, op, inputs, attributes, kQonnxDomain);
}

Attributes flags(bool is_signed, bool narrow, const std::string& mode = "ROUND") {
  return {{"signed", std::int64_t{is_signed}}, {"narrow", std::int64_t{narrow}}, {"rounding_mode", mode}};
}

ValueType quant(const std::vector<Tensor>& parameters, const Attributes& attributes) {
  return known_of([&](RangeNet& net) { return quantizer(net, "Quant", parameters, attributes); });
}

Tensor one(float value) { return Tensor::scalar(value); }

TEST_CASE("ranges of Quant are those of a sweep") {
  std::vector<double> x;
  for (int i = -600; i <= 600; ++i) x.push_back(i / 4.0);
  const Ints shape{static_cast<std::int64_t>(x.size())}, none;
  std::mt19937 engine(1);
  const auto pick = [&](std::vector<double> numbers) {
    return numbers[std::uniform_int_distribution<std::size_t>(0, numbers.size() - 1)(engine)];
  };
  for (int i = 0; i < 1500; ++i) {
    const std::string mode = std::vector<std::string>{
        "ROUND", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN"}[static_cast<std::size_t>(i % 7)];
    const double bits = pick({1, 2, 3, 5, 2.5, 3.7}), zero = pick({0, 0, 3, -4, 0.5, -2.5}),
                 scale = pick({1, 1, 0.5, 0.3});
    const IntegerFormat format{
        .bits = static_cast<float>(bits), .is_signed = pick({0, 1}) == 1, .narrow = pick({0, 1}) == 1};
    CAPTURE(mode);
    CAPTURE(bits);
    CAPTURE(zero);
    CAPTURE(format.is_signed);
    CAPTURE(format.narrow);
    const double unit = 1;
    const auto made =
        quantize({x, shape}, {{&unit, 1}, none}, {{&zero, 1}, none}, format, *find_quant_rounding(mode))
            .take();
    const auto [low, high] = std::ranges::minmax(made.values);
    const ValueType known =
        quant({one(static_cast<float>(scale)), one(static_cast<float>(zero)), one(static_cast<float>(bits))},
              flags(format.is_signed, format.narrow, mode));
    REQUIRE(known.levels);
    CHECK(known.levels->low == low);
    CHECK(known.levels->high == high);
    CHECK(known.levels->halves == (std::trunc(zero) != zero));
    CHECK(known.levels->scale == static_cast<float>(scale));
    CHECK(known.levels->one_scale);
    CHECK(known.levels->positive);
    CHECK_FALSE(known.levels->assumed);
    const int whole = static_cast<int>(std::ceil(bits));
    if (zero == 0) CHECK(known.levels->bits == whole);
    const DataType expected = scale != 1 || std::trunc(zero) != zero ? DataType::scaled(whole)
                              : zero != 0                            ? DataType::least_integer(low, high)
                              : bits == 1 && format.is_signed        ? DataType::bipolar()
                                                              : DataType::integer(whole, format.is_signed);
    CHECK(known.type == expected);
  }
}

TEST_CASE("ranges of Quant: parameters that leave them open") {
  const Attributes plain = flags(true, false);
  const auto levels = [&](const std::vector<Tensor>& parameters) { return quant(parameters, plain).levels; };
  const Tensor bits = one(4), zero = one(0);
  const auto floats = [](const std::vector<float>& values) {
    return Tensor::floats({static_cast<std::int64_t>(values.size())}, values);
  };
  // Scales.
  const auto several = levels({floats({1, 2, 1, 1}), zero, bits});
  REQUIRE(several);
  CHECK_FALSE(several->one_scale);
  CHECK_FALSE(several->scale);
  CHECK(several->positive);
  CHECK_FALSE(levels({floats({1, -2, 1, 1}), zero, bits})->positive);
  CHECK_FALSE(levels({one(-0.5F), zero, bits})->positive);
  CHECK(levels({one(-0.5F), zero, bits})->scale == -0.5);
  for (const float bad : {0.0F, INFINITY, NAN}) {
    CHECK_FALSE(levels({one(bad), zero, bits}));
    CHECK_FALSE(levels({floats({1, 1, bad, 1}), zero, bits}));
  }
  const auto open = known_of([](RangeNet& net) {
    return net.node("Quant", {net.input("x", {2, 4}), net.input("s", {}), net.number(0), net.number(4)}, {},
                    kQonnxDomain);
  });
  REQUIRE(open.levels);
  CHECK_FALSE(open.levels->one_scale);
  CHECK_FALSE(open.levels->positive);
  CHECK(open.type == DataType::scaled(4));
  // Zero points.
  CHECK(levels({one(1), floats({3, 3, 3, 3}), bits}));
  const auto shifted_apart = levels({one(1), floats({3, -3, 2, 3}), bits});
  REQUIRE(shifted_apart);  // of any element: a code from -8 to 7, less a zero point from -3 to 3
  CHECK(shifted_apart->low == -11);
  CHECK(shifted_apart->high == 10);
  CHECK(shifted_apart->bits == 5);
  CHECK_FALSE(levels({one(1), floats({3, 3, 2.5F, 3}), bits}));
  CHECK_FALSE(levels({one(1), one(0.25F), bits}));
  CHECK_FALSE(levels({one(1), Tensor::floats({0}, {}), bits}));
  CHECK(levels({one(1), one(4194304), bits}));
  CHECK(levels({one(1), one(-4194304), bits}));
  CHECK_FALSE(levels({one(1), one(4194304.5F), bits}));
  CHECK(quant({one(1), floats({0, 0, 2, 0}), bits}, plain).type == DataType::integer(5, true));
  CHECK(quant({one(1), floats({0, 0, 0.25F, 0}), bits}, plain).type == DataType::scaled(4));
  // Widths and rounding modes.
  CHECK(levels({one(1), zero, one(512)}));
  for (const float bad : {0.0F, -1.0F, 513.0F}) {
    CHECK(quant({one(1), zero, one(bad)}, plain).type == DataType::float32());
    CHECK_FALSE(levels({one(1), zero, one(bad)}));
  }
  const ValueType unknown_mode = quant({one(1), zero, bits}, flags(true, false, "SIDEWAYS"));
  CHECK_FALSE(unknown_mode.levels);
  CHECK(unknown_mode.type == DataType::integer(4, true));
  // Attributes that are left out: signed, not narrow, to nearest.
  CHECK(quant({one(1), zero, bits}, {}) == quant({one(1), zero, bits}, plain));
}

TEST_CASE("ranges of BipolarQuant") {
  const auto known = [](const Tensor& scale) {
    return known_of([&](RangeNet& net) { return quantizer(net, "BipolarQuant", {scale}, {}); });
  };
  const ValueType plain = known(one(1)), scaled = known(one(0.5F));
  CHECK(plain.type == DataType::bipolar());
  CHECK(scaled.type == DataType::scaled(1));
  CHECK(plain.levels == Levels{.low = -1, .high = 1, .bits = 1, .scale = 1});
  CHECK(scaled.levels == Levels{.low = -1, .high = 1, .bits = 1, .scale = 0.5});
  CHECK_FALSE(known(one(0)).levels);
  const float ones[] = {1, 1, 1, 1};
  CHECK(known(Tensor::floats({4}, ones)).type == DataType::bipolar());
}

std::vector<Tensor> fields(float exponent, float mantissa, float bias, float most, float scale = 1) {
  return {one(scale), one(exponent), one(mantissa), one(bias), one(most)};
}

ValueType float_quant(const std::vector<Tensor>& parameters, const Attributes& attributes = {}) {
  return known_of([&](RangeNet& net) { return quantizer(net, "FloatQuant", parameters, attributes); });
}

TEST_CASE("ranges of FloatQuant are those of a sweep") {
  const Ints none;
  const double unit = 1;
  for (int exponent = 1; exponent <= 4; ++exponent) {
    for (int mantissa = 0; mantissa <= 3; ++mantissa) {
      for (const int bias : {1, 3, 7}) {
        for (const double most : {1.0, 6.0, 448.0, 1e6}) {
          CAPTURE(exponent);
          CAPTURE(mantissa);
          CAPTURE(bias);
          CAPTURE(most);
          const FloatFormat format{.exponent_bits = double(exponent),
                                   .mantissa_bits = double(mantissa),
                                   .exponent_bias = double(bias),
                                   .max_value = most};
          std::vector<double> x{1e9, -1e9};
          const double least = std::exp2(1 - mantissa - bias);
          for (int i = 1; i < 40; ++i) x.push_back(i * least);
          const auto made = quantize_float({x, Ints{static_cast<std::int64_t>(x.size())}}, {{&unit, 1}, none},
                                           format, QuantRounding::kHalfEven)
                                .take();
          const ValueType known =
              float_quant(fields(exponent, mantissa, bias, static_cast<float>(most), 0.5F));
          CHECK(known.type == DataType::floating(exponent, mantissa, bias));
          const double high = made.values[0];
          if (std::trunc(high / least) != high / least) {
            CHECK_FALSE(known.levels);  // a limit between two numbers of the grid
            continue;
          }
          REQUIRE(known.levels);
          CHECK(known.levels->high == high);
          CHECK(known.levels->low == made.values[1]);
          CHECK(known.levels->scale == 0.5);
          double smallest = INFINITY;
          for (const float value : made.values) {
            if (value > 0) smallest = std::min(smallest, double(value));
            CHECK(std::trunc(value / known.levels->unit()) == value / known.levels->unit());
          }
          if (high >= least) CHECK(smallest == known.levels->unit());
          CHECK(known.levels->bits == known.type.bits());
        }
      }
    }
  }
}

TEST_CASE("ranges of FloatQuant: parameters that leave them open") {
  const auto type = [](const std::vector<Tensor>& parameters) { return float_quant(parameters).type; };
  CHECK(type(fields(8, 23, 127, 1e9F)) == DataType::floating(8, 23, 127));
  CHECK(type(fields(1, 0, 1, 1)) == DataType::floating(1, 0, 1));
  CHECK(type(fields(4, 3, 1000, 448)) == DataType::floating(4, 3, 1000));
  for (const auto& [e, m, b] : std::vector<std::array<float, 3>>{{0, 3, 7},
                                                                 {9, 3, 7},
                                                                 {4, -1, 7},
                                                                 {4, 24, 7},
                                                                 {4, 3, 1001},
                                                                 {4, 3, -1001},
                                                                 {4.5F, 3, 7},
                                                                 {4, 2.5F, 7},
                                                                 {4, 3, 6.5F}}) {
    CHECK(float_quant(fields(e, m, b, 448)) == ValueType{});
  }
  const auto is_known = [](const std::vector<Tensor>& parameters, const Attributes& attributes = {}) {
    return float_quant(parameters, attributes).levels.has_value();
  };
  CHECK(is_known(fields(4, 3, 7, 448)));
  CHECK(is_known(fields(4, 3, 7, INFINITY)));
  CHECK_FALSE(is_known(fields(4, 3, 7, 0)));
  CHECK_FALSE(is_known(fields(4, 3, 7, -448)));
  CHECK_FALSE(is_known(fields(4, 3, 7, NAN)));
  CHECK_FALSE(is_known(fields(4, 3, 7, 448, 0)));
  CHECK_FALSE(is_known(fields(8, 3, 1, INFINITY)));  // beyond float32
  CHECK(is_known(fields(4, 3, 7, 448), {{"saturation", std::int64_t{1}}}));
  CHECK_FALSE(
      is_known(fields(4, 3, 7, 448), {{"saturation", std::int64_t{0}}, {"has_inf", std::int64_t{1}}}));
  CHECK_FALSE(is_known(fields(4, 3, 7, 448), {{"rounding_mode", std::string("SIDEWAYS")}}));
}

ValueType thresholds(const Tensor& steps, const Attributes& attributes) {
  return known_of([&](RangeNet& net) { return quantizer(net, "MultiThreshold", {steps}, attributes); });
}

TEST_CASE("ranges of MultiThreshold are those of its counts") {
  for (int count = 1; count <= 9; ++count) {
    std::vector<float> steps(static_cast<std::size_t>(4 * count));
    for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = static_cast<float>(i);
    const Tensor tensor = Tensor::floats({4, count}, steps);
    for (const float by : {1.0F, 2.0F, -1.0F, 0.5F, 0.25F, -0.5F}) {
      for (const float bias : {0.0F, -1.0F, 2.0F, -3.5F, 0.25F}) {
        CAPTURE(count);
        CAPTURE(by);
        CAPTURE(bias);
        const ValueType known = thresholds(
            tensor, {{"out_scale", by}, {"out_bias", bias}, {"out_dtype", std::string("FLOAT32")}});
        const double ends[] = {bias, double(bias) + double(by) * count};
        const auto [low, high] = std::ranges::minmax(ends);
        const bool whole = std::trunc(by) == by && std::trunc(bias) == bias;
        const double start = bias / std::fabs(by);
        if (!whole && std::trunc(2 * start) != 2 * start) {
          CHECK_FALSE(known.levels);
          continue;
        }
        REQUIRE(known.levels);
        CHECK(known.levels->scale == (whole ? 1 : std::fabs(by)));
        CHECK(known.levels->halves == (!whole && std::trunc(start) != start));
        CHECK(known.levels->low * *known.levels->scale == low);
        CHECK(known.levels->high * *known.levels->scale == high);
        const bool bipolar = count == 1 && low == -1 && high == 1 && whole;
        if (whole) CHECK(known.type == (bipolar ? DataType::bipolar() : DataType::least_integer(low, high)));
        if (!whole) CHECK(known.type.is_scaled() == !(known.levels->scale == 1.0 && !known.levels->halves));
      }
    }
  }
}

TEST_CASE("ranges of MultiThreshold: claimed types, and steps that leave them open") {
  const float three[] = {1, 2, 3, 1, 2, 3};
  const Tensor steps = Tensor::floats({2, 3}, three);
  const auto type = [&](const std::string& claimed, float by = 1, float bias = 0) {
    return thresholds(steps, {{"out_dtype", claimed}, {"out_scale", by}, {"out_bias", bias}}).type.name();
  };
  CHECK(type("UINT2") == "UINT2");
  CHECK(type("UINT7") == "UINT7");
  CHECK(type("INT3") == "INT3");
  CHECK(type("INT2") == "UINT2");
  CHECK(type("INT2", 1, -2) == "INT2");
  CHECK(type("UINT4", 1, -2) == "INT2");
  CHECK(type("FLOAT32") == "UINT2");
  CHECK(type("nonsense") == "UINT2");
  CHECK(type("SCALEDINT<8>") == "UINT2");
  CHECK(thresholds(steps, {}).type.name() == "UINT2");  // out_scale 1, out_bias 0
  CHECK(thresholds(steps, {{"out_dtype", std::string("TERNARY")}, {"out_bias", -1.0F}}).type.name() ==
        "INT3");
  const float two[] = {1, 2};
  CHECK(thresholds(Tensor::floats({1, 2}, two), {{"out_dtype", std::string("TERNARY")}, {"out_bias", -1.0F}})
            .type == DataType::ternary());
  CHECK(thresholds(Tensor::floats({2, 1}, two),
                   {{"out_dtype", std::string("BIPOLAR")}, {"out_scale", 2.0F}, {"out_bias", -1.0F}})
            .type == DataType::bipolar());
  // NaN is never reached; the most counts.
  const float some[] = {NAN, NAN, 3, NAN, 2, 3};
  CHECK(thresholds(Tensor::floats({2, 3}, some), {}).levels->high == 2);
  CHECK_FALSE(thresholds(Tensor::floats({6}, three), {}).levels);
  CHECK_FALSE(thresholds(Tensor::floats({0, 3}, {}), {}).levels);
  CHECK_FALSE(thresholds(steps, {{"out_scale", INFINITY}}).levels);
  CHECK_FALSE(thresholds(steps, {{"out_bias", NAN}}).levels);
  CHECK(thresholds(steps, {{"out_scale", 0.0F}, {"out_bias", 3.0F}}).levels->high == 3);
  CHECK_FALSE(thresholds(steps, {{"out_scale", 0.0F}, {"out_bias", 0.5F}}).levels);
  CHECK(thresholds(steps, {{"out_bias", 4194304.0F}}).levels);
  CHECK_FALSE(thresholds(steps, {{"out_bias", 4194305.0F}}).levels);
  const std::vector<float> many(2048);
  CHECK(thresholds(Tensor::floats({1, 2048}, many), {}).levels->high == 2048);
  CHECK_FALSE(thresholds(Tensor::floats({1, 2049}, std::vector<float>(2049)), {}).levels);
}

/// Levels -8..7 times 0.5, and version 1 of Trunc: five inputs; version 2 has a scale of its own before the width.
ValueType truncated(std::int64_t version, const std::vector<float>& parameters,
                    const Attributes& attributes = {}, bool is_input = false) {
  return known_of([&](RangeNet& net) {
    std::vector<std::string> inputs{is_input ? net.input("x", {2, 4})
                                             : net.quantized({2, 4}, 0.5F, 0, 4, true)};
    for (const float parameter : parameters) inputs.push_back(net.number(parameter));
    return net.at_version(version, "Trunc", inputs, attributes, kQonnxDomain);
  });
}

void check_codes(const ValueType& known, double low, double high, double scale, int bits) {
  REQUIRE(known.levels);
  CHECK(known.levels->low == low);
  CHECK(known.levels->high == high);
  CHECK(known.levels->scale == scale);
  CHECK(known.type == DataType::scaled(bits));
}

TEST_CASE("ranges of Trunc, which drops bits") {
  const auto mode = [](const char* name) { return Attributes{{"rounding_mode", std::string(name)}}; };
  // Version 1: scale, zero point, bits before and after; the scale stays.
  check_codes(truncated(1, {0.5F, 0, 4, 2}), -2, 1, 0.5, 2);
  check_codes(truncated(1, {0.5F, 0, 4, 3}), -4, 3, 0.5, 3);
  check_codes(truncated(1, {0.5F, 0, 4, 4}), -8, 7, 0.5, 4);
  check_codes(truncated(1, {0.5F, 0, 4, 2}, mode("CEIL")), -2, 2, 0.5, 2);
  check_codes(truncated(1, {0.5F, 0, 4, 2}, mode("ROUND")), -2, 2, 0.5, 2);
  check_codes(truncated(1, {0.5F, 0, 64, 63}), -4, 3, 0.5, 63);
  check_codes(truncated(1, {0.5F, 0, 4, 2.5F}), -3, 2, 0.5, 3);
  check_codes(truncated(1, {0.25F, 0, 5, 3}), -4, 3, 0.25, 3);
  // Version 2: the scale after it, and a clamp to the width.
  check_codes(truncated(2, {0.5F, 0, 4, 2, 2}), -2, 1, 2, 2);
  check_codes(truncated(2, {0.5F, 0, 4, 1, 2}), -2, 1, 1, 2);  // -4..3, clamped
  check_codes(truncated(2, {0.5F, 0, 4, 1, 8}), -4, 3, 1, 8);
  check_codes(truncated(2, {0.5F, 0, 4, 1, 8}, {{"signed", std::int64_t{0}}}), 0, 3, 1, 8);
  check_codes(truncated(2, {0.5F, 0, 4, 1, 3}, {{"narrow", std::int64_t{1}}}), -3, 3, 1, 3);
  check_codes(truncated(2, {0.5F, 0, 4, 1, 8}, mode("CEIL")), -4, 4, 1, 8);
  check_codes(truncated(2, {0.5F, 0, 4, 1, 3}, {}, true), -4, 3, 1, 3);  // of anything, what the clamp leaves
  const auto is_open = [](const ValueType& known) { return !known.levels; };
  CHECK(is_open(truncated(1, {0.5F, 0, 4, 2}, {}, true)));
  CHECK(truncated(1, {0.5F, 0, 4, 2}, {}, true).type == DataType::scaled(2));
  for (const float zero : {1.0F, -1.0F, 0.5F}) {
    CHECK(truncated(1, {0.5F, zero, 4, 2}) == ValueType{});
    CHECK(truncated(2, {0.5F, zero, 4, 1, 2}) == ValueType{});
  }
  for (const float scale : {0.0F, -0.5F, INFINITY, NAN}) {
    CHECK(truncated(1, {scale, 0, 4, 2}) == ValueType{});
    CHECK(truncated(2, {scale, 0, 4, 1, 2}) == ValueType{});
    CHECK(truncated(2, {0.5F, 0, 4, scale, 2}) == ValueType{});
  }
  CHECK(truncated(1, {0.5F, 0, 4, 0.5F}) == ValueType{});
  CHECK(truncated(1, {0.5F, 0, 4, 513}) == ValueType{});
  CHECK(truncated(1, {0.5F, 0, 65, 63}) == ValueType{});
  CHECK(truncated(1, {0.5F, 0, -65, 2}) == ValueType{});
  CHECK(truncated(1, {0.5F, 0, 4, 2}, mode("SIDEWAYS")) == ValueType{});
  CHECK(truncated(1, {0.5F, 0, 4, 1, 2}) == ValueType{});
  CHECK(truncated(2, {0.5F, 0, 4, 2}) == ValueType{});
  for (const std::size_t open : {1U, 2U, 3U, 4U}) {  // parameters that are computed
    CHECK(known_of([&](RangeNet& net) {
            std::vector<std::string> inputs{net.quantized({2, 4}, 0.5F, 0, 4, true)};
            for (const float parameter : {0.5F, 0.0F, 4.0F, 2.0F}) inputs.push_back(net.number(parameter));
            inputs[open] = net.input("o", {});
            return net.at_version(1, "Trunc", inputs, {}, kQonnxDomain);
          }) == ValueType{});
  }
}

TEST_CASE("ranges of ONNX's quantizers are those of their types") {
  const auto quantized = [](std::int64_t version, const std::optional<Tensor>& zero,
                            const Attributes& attributes = {}) {
    return known_of([&](RangeNet& net) {
      std::vector<std::string> inputs{net.input("x", {2, 4}), net.number(0.5F)};
      if (zero) inputs.push_back(net.constant("zero", *zero));
      return net.at_version(version, "QuantizeLinear", inputs, attributes);
    });
  };
  const auto zero_of = [](ElementType type) {
    return Tensor(type, {}, std::vector<std::byte>(info(type).bits > 8 ? 2 : 1));
  };
  CHECK(quantized(13, std::nullopt).type == DataType::integer(8, false));
  CHECK(quantized(21, std::nullopt).type == DataType::integer(8, false));
  for (const auto& [element, bits, is_signed] :
       std::vector<std::tuple<ElementType, int, bool>>{{ElementType::kInt8, 8, true},
                                                       {ElementType::kUint8, 8, false},
                                                       {ElementType::kInt16, 16, true},
                                                       {ElementType::kUint4, 4, false},
                                                       {ElementType::kInt4, 4, true}}) {
    const DataType type = DataType::integer(bits, is_signed);
    const Attribute number = std::int64_t{onnx_number(element)};
    for (const ValueType& known :
         {quantized(21, zero_of(element)), quantized(21, std::nullopt, {{"output_dtype", number}})}) {
      CHECK(known.type == type);
      REQUIRE(known.levels);
      CHECK(known.levels->low == *type.min());
      CHECK(known.levels->high == *type.max());
    }
    // Before version 21 there was no such attribute.
    CHECK(quantized(19, std::nullopt, {{"output_dtype", number}}).type == DataType::integer(8, false));
  }
  CHECK(quantized(21, std::nullopt, {{"output_dtype", std::int64_t{0}}}).type == DataType::integer(8, false));
  const std::int64_t float8 = onnx_number(ElementType::kFloat8E4M3fn);
  CHECK_FALSE(quantized(21, std::nullopt, {{"output_dtype", float8}}).levels);
  CHECK(quantized(21, std::nullopt, {{"output_dtype", float8}}).type ==
        exact_data_type(ElementType::kFloat8E4M3fn));
  CHECK_FALSE(quantized(21, zero_of(ElementType::kFloat8E4M3fn)).levels);
}

TEST_CASE("ranges of Trunc: what the clamp leaves is assumed where the input's own range is") {
  const auto of_annotated = [](const char* type, float bits) {
    return known_of([&](RangeNet& net) {
      const std::string x = net.input("x", {2, 4});
      net.graph.values[x].annotations["finn_datatype"] = type;
      std::vector<std::string> inputs{x};
      for (const float parameter : {1.0F, 0.0F, 8.0F, 1.0F, bits}) inputs.push_back(net.number(parameter));
      return net.at_version(2, "Trunc", inputs, {}, kQonnxDomain);
    });
  };
  CHECK(of_annotated("INT4", 4).levels->assumed);        // just fits
  CHECK(of_annotated("INT4", 5).levels->assumed);        // fits
  CHECK_FALSE(of_annotated("INT5", 4).levels->assumed);  // cut on both sides, whatever it was
}

TEST_CASE("types of DynamicQuantizeLinear and of XnorPopcountMatMul") {
  const ValueType codes = known_of([](RangeNet& net) {
    return net.node("DynamicQuantizeLinear", {net.input("x", {2, 4})});
  });
  CHECK(codes.type == DataType::integer(8, false));
  CHECK(codes.levels->high == 255);
  const ValueType counts = known_of([](RangeNet& net) {
    return net.node("XnorPopcountMatMul", {net.input("x", {2, 4}), net.input("y", {4, 3})}, {}, kQonnxDomain);
  });
  CHECK(counts.type == DataType::integer(32, false));
  CHECK_FALSE(counts.levels);
}

TEST_CASE("ranges of DequantizeLinear are those of its codes, less the zero point") {
  const auto known = [](const Tensor& scale, const std::optional<Tensor>& zero,
                        ElementType type = ElementType::kInt8) {
    return known_of([&](RangeNet& net) {
      const std::string x = net.input("x", {2, 4});
      net.graph.values[x].type = type;
      std::vector<std::string> inputs{x, net.constant("scale", scale)};
      if (zero) inputs.push_back(net.constant("zero", *zero));
      return net.at_version(13, "DequantizeLinear", inputs, {{"axis", std::int64_t{1}}});
    });
  };
  const auto bytes = [](std::vector<std::int8_t> values, const Ints& shape) {
    std::vector<std::byte> raw(values.size());
    std::ranges::transform(values, raw.begin(), [](std::int8_t v) { return static_cast<std::byte>(v); });
    return Tensor(ElementType::kInt8, shape, raw);
  };
  const ValueType half = known(one(0.5F), std::nullopt), plain = known(one(1), std::nullopt);
  CHECK(half.type == DataType::scaled(8));
  CHECK(plain.type == DataType::integer(8, true));
  CHECK(half.levels->low == -128);
  CHECK(half.levels->high == 127);
  CHECK(half.levels->scale == 0.5);
  CHECK(half.levels->assumed);
  const ValueType shifted = known(one(1), bytes({-3}, {}));
  CHECK(shifted.levels->low == -125);
  CHECK(shifted.levels->high == 130);
  CHECK(shifted.type == DataType::integer(9, true));
  CHECK(known(one(1), bytes({0}, {})).type == DataType::integer(8, true));
  const float four[] = {1, 2, 3, 4};
  CHECK_FALSE(known(Tensor::floats({4}, four), bytes({2, 2, 2, 2}, {4})).levels->one_scale);
  CHECK(known(Tensor::floats({4}, four), bytes({2, 2, 2, 2}, {4})).levels->high == 125);
  CHECK(known(Tensor::floats({4}, four), bytes({2, 2, 1, 2}, {4})).levels->low == -130);
  CHECK(known(Tensor::floats({4}, four), bytes({2, 2, 1, 2}, {4})).levels->high == 126);
  CHECK_FALSE(known(one(0), std::nullopt).levels);
  CHECK_FALSE(known(one(1), std::nullopt, ElementType::kFloat8E4M3fn).levels);
}

}  // namespace
}  // namespace crumb::graph

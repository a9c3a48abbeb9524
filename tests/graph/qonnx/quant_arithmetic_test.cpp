#include "graph/qonnx/quant_arithmetic.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/testing.h"

namespace crumb::graph {
namespace {

using Json = nlohmann::json;

double number(const Json& json) {
  if (!json.is_string()) return json.get<double>();
  const std::string text = json.get<std::string>();
  if (text == "nan") return NAN;
  if (text == "-0" || text == "-0.0") return -0.0;
  return text.starts_with('-') ? -INFINITY : INFINITY;
}

struct Input {
  std::vector<std::int64_t> shape;
  std::vector<double> values;
  QuantOperand operand() const { return {.values = values, .shape = shape}; }
};

Input input(const Json& json) {
  Input made{.shape = json["shape"].get<std::vector<std::int64_t>>()};
  for (const Json& value : json["data"]) made.values.push_back(static_cast<float>(number(value)));
  return made;
}

bool same_bits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0;
}

Result<Quantized> compute(const Json& test) {
  std::map<std::string, Input> in;
  for (const auto& [name, value] : test["inputs"].items()) in[name] = input(value);
  const Json& attributes = test["attrs"];
  const auto flag = [&](const char* name, int otherwise) { return attributes.value(name, otherwise) != 0; };
  const auto mode = *find_quant_rounding(attributes.value("rounding_mode", "ROUND"));
  if (test["op"] == "BipolarQuant") return quantize_bipolar(in["X"].operand(), in["scale"].operand());
  if (test["op"] == "IntQuant") {
    const IntegerFormat format{
        .bits = in["bitwidth"].values.at(0), .is_signed = flag("signed", 1), .narrow = flag("narrow", 0)};
    return quantize(in["X"].operand(), in["scale"].operand(), in["zeropt"].operand(), format, mode);
  }
  const FloatFormat format{.exponent_bits = in["exponent_bitwidth"].values.at(0),
                           .mantissa_bits = in["mantissa_bitwidth"].values.at(0),
                           .exponent_bias = in["exponent_bias"].values.at(0),
                           .max_value = in["max_val"].values.at(0),
                           .has_inf = flag("has_inf", 0),
                           .has_nan = flag("has_nan", 0),
                           .saturates = flag("saturation", 1)};
  return quantize_float(in["X"].operand(), in["scale"].operand(), format, mode);
}

TEST_CASE("quantizers give the bits of the reference vectors") {
  std::ifstream file(testing::repo_root() / "tests/fixtures/qonnx_vectors.json");
  const Json golden = Json::parse(file);
  int compared = 0;
  for (const Json& test : golden["cases"]) {
    const std::string op = test["op"];
    if (op != "IntQuant" && op != "BipolarQuant" && op != "FloatQuant") continue;
    CAPTURE(test["attrs"].dump());
    const Quantized made = compute(test).take();
    const Json& expected = test["expected"]["data"];
    REQUIRE(made.values.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      const auto wanted = static_cast<float>(number(expected[i]));
      CHECK(same_bits(made.values[i], wanted));
    }
    ++compared;
  }
  CHECK(compared > 50);
}

TEST_CASE("rounding modes") {
  using enum QuantRounding;
  struct Row {
    double x, half_even, ceil, floor, up, down, half_up, half_down;
  };
  const Row rows[] = {{5.5, 6, 6, 5, 6, 5, 6, 5},         {2.5, 2, 3, 2, 3, 2, 3, 2},
                      {1.6, 2, 2, 1, 2, 1, 2, 2},         {1.1, 1, 2, 1, 2, 1, 1, 1},
                      {-1.1, -1, -1, -2, -2, -1, -1, -1}, {-2.5, -2, -2, -3, -3, -2, -3, -2},
                      {-5.5, -6, -5, -6, -6, -5, -6, -5}, {1, 1, 1, 1, 1, 1, 1, 1}};
  for (const Row& row : rows) {
    CAPTURE(row.x);
    CHECK(rounded(row.x, kHalfEven) == row.half_even);
    CHECK(rounded(row.x, kCeil) == row.ceil);
    CHECK(rounded(row.x, kFloor) == row.floor);
    CHECK(rounded(row.x, kUp) == row.up);
    CHECK(rounded(row.x, kDown) == row.down);
    CHECK(rounded(row.x, kHalfUp) == row.half_up);
    CHECK(rounded(row.x, kHalfDown) == row.half_down);
  }
  CHECK(rounded(static_cast<double>(0.49999997F), kHalfUp) == 1);  // in float32
  CHECK(rounded(static_cast<double>(0.49999997F), kHalfUp, true) == 0);
  CHECK(rounded(8388609, kHalfUp) == 8388610);
  CHECK(std::signbit(rounded(static_cast<double>(0.2F), kHalfDown)));
  CHECK(find_quant_rounding("half_Up") == kHalfUp);
  CHECK(find_quant_rounding("round") == kHalfEven);
  CHECK_FALSE(find_quant_rounding("NEAREST"));
}

TEST_CASE("integers are given beside values") {
  const std::vector<double> x{-1.0, -0.26, 0.26, 0.9}, scale{0.5}, zero{-0.5};
  const std::vector<std::int64_t> shape{4}, one{};
  const IntegerFormat format{.bits = 2};
  const Quantized made =
      quantize({x, shape}, {scale, one}, {zero, one}, format, QuantRounding::kHalfEven).take();
  CHECK(made.integers == std::vector<double>{-2, -1, 0, 1});
  CHECK(made.values == std::vector<float>{-0.75F, -0.25F, 0.25F, 0.75F});
}

TEST_CASE("the width 1 with a sign is -1 and 1; fractional widths clamp before they round") {
  const std::vector<double> x{-3, -0.0, 0.0, 3}, unit{1}, zero{0};
  const std::vector<std::int64_t> shape{4}, one{};
  const auto made = [&](double bits, bool is_signed) {
    return quantize({x, shape}, {unit, one}, {zero, one}, {.bits = bits, .is_signed = is_signed},
                    QuantRounding::kHalfEven)
        .take()
        .integers;
  };
  CHECK(made(1, true) == std::vector<double>{-1, 1, 1, 1});
  CHECK(made(1, false) == std::vector<double>{0, 0, 0, 1});
  CHECK(made(2.5, true) == std::vector<double>{-3, 0, 0, 2});
}

TEST_CASE("parameters broadcast as in NumPy, or are refused") {
  const std::vector<double> x{1, 2, 3, 4, 5, 6}, by_row{1, 2}, by_column{1, 2, 3}, zero{0};
  const std::vector<std::int64_t> shape{2, 3}, rows{2, 1}, columns{3}, one{}, larger{1, 2, 3}, wrong{2};
  const IntegerFormat format{.bits = 8};
  const auto made = [&](const std::vector<double>& scale, const std::vector<std::int64_t>& of) {
    return quantize({x, shape}, {scale, of}, {zero, one}, format, QuantRounding::kFloor);
  };
  CHECK(made(by_row, rows).take().integers == std::vector<double>{1, 2, 3, 2, 2, 3});
  CHECK(made(by_column, columns).take().integers == std::vector<double>{1, 1, 1, 4, 2, 2});
  CHECK_FALSE(made(by_row, wrong).ok());
  CHECK_FALSE(made(x, larger).ok());
  CHECK_FALSE(quantize_bipolar({x, shape}, {by_row, wrong}).ok());
  const Quantized none = quantize({{}, std::vector<std::int64_t>{0, 3}}, {by_column, columns}, {zero, one},
                                  format, QuantRounding::kFloor)
                             .take();
  CHECK(none.values.empty());
}

TEST_CASE("an integer or float64 operand makes the steps behind it float64") {
  // 0.1f * 3 in float32 and in float64, each rounded to float32 at the end.
  const std::vector<double> x{1.0}, scale{static_cast<double>(0.1F)}, zero{3};
  const std::vector<std::int64_t> one{};
  const IntegerFormat format{.bits = 16};
  const auto value = [&](bool wide_zero, bool wide_scale) {
    return quantize({x, one}, {scale, one, wide_scale}, {zero, one, wide_zero}, format, QuantRounding::kFloor)
        .take()
        .integers[0];
  };
  CHECK(value(false, false) == 13);  // 1 / 0.1f rounds to 10 in float32
  CHECK(value(false, true) == 12);   // and is below 10 in float64
  CHECK(value(true, false) == 13);
}

TEST_CASE("values that do not saturate need somewhere to go") {
  const std::vector<double> x{1000, -1000, 1}, unit{1};
  const std::vector<std::int64_t> shape{3}, one{};
  FloatFormat format{.saturates = false};
  CHECK_FALSE(quantize_float({x, shape}, {unit, one}, format, QuantRounding::kHalfEven).ok());
  format.has_inf = true;
  CHECK(quantize_float({x, shape}, {unit, one}, format, QuantRounding::kHalfEven).take().values ==
        std::vector<float>{INFINITY, -INFINITY, 1});
  CHECK(format.largest() == 480);
}

}  // namespace
}  // namespace crumb::graph

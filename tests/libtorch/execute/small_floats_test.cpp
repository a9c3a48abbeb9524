// Rounding to float8 and float4 against a search over every value of the type.
#include "libtorch/execute/small_floats.h"

#include <cmath>
#include <limits>
#include <vector>

#include "formats/number/minifloat.h"
#include "libtorch/execute/typed_tensor.h"
#include "tests/support/torch_doctest.h"

using crumb::graph::ElementType;
using crumb::libtorch::PowerRounding;
using crumb::libtorch::round_to_small_float;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

struct Row {
  ElementType type;
  float largest;
};
constexpr Row kRows[] = {{ElementType::kFloat8E4M3fn, 448},
                         {ElementType::kFloat8E4M3fnuz, 240},
                         {ElementType::kFloat8E5M2, 57344},
                         {ElementType::kFloat8E5M2fnuz, 57344},
                         {ElementType::kFloat4E2M1, 6}};

/// The non-negative finite values, ascending: their index is the code, its parity that of the mantissa.
std::vector<float> values_of(ElementType type) {
  const auto info = crumb::dtype_info(*crumb::graph::info(type).dtype);
  const auto& format = *crumb::find_number_format(info.number_format);
  std::vector<float> values;
  for (int code = 0; code <= crumb::largest_finite_pattern(format); ++code) {
    values.push_back(crumb::decode_minifloat(format, static_cast<uint8_t>(code)));
  }
  return values;
}

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

float rounded(double value, ElementType type, crumb::libtorch::SmallFloatRounding how = {}) {
  return round_to_small_float(torch::tensor(value, torch::kDouble), type, how).item<float>();
}

}  // namespace

TEST_CASE("small floats: values, neighbours and midpoints round to the nearest, ties to even") {
  for (const Row& row : kRows) {
    CAPTURE(crumb::graph::name_of(row.type));
    const bool fnuz = row.type == ElementType::kFloat8E4M3fnuz || row.type == ElementType::kFloat8E5M2fnuz;
    const std::vector<float> values = values_of(row.type);
    CHECK(values.back() == row.largest);
    std::vector<float> inputs, expected;
    const auto add = [&](float input, float output) {
      for (const float sign : {1.0F, -1.0F}) {
        inputs.push_back(sign * input);
        expected.push_back(output == 0 && fnuz ? 0.0F : sign * output);
      }
    };
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      const float low = values[i], high = values[i + 1], middle = low + (high - low) / 2;
      add(low, low);
      add(middle, i % 2 == 0 ? low : high);
      add(std::nextafter(middle, 0.0F), low);
      add(std::nextafter(middle, kInf), high);
    }
    add(1e-45F, 0);
    add(row.largest, row.largest);
    add(row.largest * 1.01F, row.largest);
    add(3e38F, row.largest);
    add(kInf, row.largest);
    const torch::Tensor x = torch::tensor(inputs);
    const torch::Tensor got = round_to_small_float(x, row.type);
    const torch::Tensor got_double = round_to_small_float(x.to(torch::kDouble), row.type);
    int wrong = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      wrong += !same(got[at].item<float>(), expected[i]) || !same(got_double[at].item<float>(), expected[i]);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("small floats: beyond the range without saturation, NaN, doubles and integers") {
  const crumb::libtorch::SmallFloatRounding loose{.saturate = false};
  CHECK(same(rounded(465, ElementType::kFloat8E4M3fn, loose), kNan));
  CHECK(rounded(464, ElementType::kFloat8E4M3fn, loose) == 448);
  CHECK(same(rounded(-1e300, ElementType::kFloat8E5M2, loose), -kInf));
  CHECK(same(rounded(kInf, ElementType::kFloat8E5M2fnuz, loose), kNan));
  CHECK(same(rounded(248, ElementType::kFloat8E4M3fnuz, loose), kNan));
  CHECK(rounded(-kInf, ElementType::kFloat4E2M1, loose) == -6);
  CHECK(rounded(1e300, ElementType::kFloat8E4M3fn) == 448);
  for (const Row& row : kRows) {
    const float nan = rounded(kNan, row.type);
    CHECK(same(nan, row.type == ElementType::kFloat4E2M1 ? 0 : kNan));
    CHECK(same(rounded(-0.0, row.type), crumb::graph::name_of(row.type).ends_with("fnuz") ? 0.0F : -0.0F));
  }
  // Just above the midpoint of 1 and 1.125: a float between would make it a tie.
  CHECK(rounded(1.0625 + 1e-12, ElementType::kFloat8E4M3fn) == 1.125F);
  CHECK(round_to_small_float(torch::tensor(int64_t{17}), ElementType::kFloat8E4M3fn).item<float>() == 16);
  CHECK(round_to_small_float(torch::empty({0, 3}), ElementType::kFloat8E5M2).sizes() ==
        torch::IntArrayRef{0, 3});
  CHECK_THROWS_AS(round_to_small_float(torch::ones(1), ElementType::kFloat16), crumb::Error);
}

TEST_CASE("small floats: powers of two") {
  const ElementType type = ElementType::kFloat8E8M0;
  const auto power = [&](double value, PowerRounding how, bool saturate = true) {
    return rounded(value, type, {.saturate = saturate, .power = how});
  };
  const float least = std::ldexp(1.0F, -127), most = std::ldexp(1.0F, 127);
  CHECK(power(1.1, PowerRounding::kUp) == 2);
  CHECK(power(1.1, PowerRounding::kDown) == 1);
  CHECK(power(1.1, PowerRounding::kNearest) == 1);
  CHECK(power(1.5, PowerRounding::kNearest) == 2);
  CHECK(power(-4, PowerRounding::kUp) == 4);
  for (const auto how : {PowerRounding::kUp, PowerRounding::kDown, PowerRounding::kNearest}) {
    for (int e = -127; e <= 127; ++e)
      CHECK(power(std::ldexp(1.0, e), how, e % 2 == 0) == std::ldexp(1.0F, e));
    CHECK(power(0, how) == least);
    CHECK(power(1e-45, how) == least);
    CHECK(power(3e38, how) == most);
    CHECK(power(kInf, how) == most);
    CHECK(same(power(0, how, false), kNan));
    CHECK(same(power(1e300, how, false), kNan));
    CHECK(same(power(kNan, how), kNan));
  }
  CHECK(same(power(3e38, PowerRounding::kUp, false), kNan));
  CHECK(power(3e38, PowerRounding::kDown, false) == most);
}

TEST_CASE("small floats: constants keep every code") {
  for (const ElementType type :
       {ElementType::kFloat8E4M3fn, ElementType::kFloat8E4M3fnuz, ElementType::kFloat8E5M2,
        ElementType::kFloat8E5M2fnuz, ElementType::kFloat8E8M0, ElementType::kFloat4E2M1}) {
    CAPTURE(crumb::graph::name_of(type));
    const bool half = crumb::graph::info(type).bits == 4;
    std::vector<std::byte> bytes;
    for (int code = 0; code < (half ? 8 : 256); ++code) {
      bytes.push_back(static_cast<std::byte>(half ? code * 2 | (code * 2 + 1) << 4 : code));
    }
    const crumb::graph::Tensor constant(type, {half ? 16 : 256}, bytes);
    const auto typed = crumb::libtorch::to_typed(constant);
    const torch::Tensor again = round_to_small_float(typed.tensor, type, {.saturate = false});
    CHECK(again.equal(typed.tensor) == !typed.tensor.isnan().any().item<bool>());
    CHECK(at::isclose(again, typed.tensor, 0, 0, true).all().item<bool>());
    const auto back = crumb::libtorch::to_typed(crumb::libtorch::to_constant(typed));
    CHECK(at::isclose(back.tensor, typed.tensor, 0, 0, true).all().item<bool>());
  }
}

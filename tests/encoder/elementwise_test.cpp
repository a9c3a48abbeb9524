#include "encoder/elementwise.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "encoder/pooling.h"

namespace crumb::encoder {
namespace {

std::vector<float> grid(float from, float to, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = from + (to - from) * static_cast<float>(i) / static_cast<float>(count - 1);
  }
  return values;
}

TEST_CASE("activations follow their references") {
  const auto x = grid(-12, 12, 100'003);
  for (const Activation activation : {Activation::kGelu, Activation::kGeluTanh, Activation::kRelu,
                                      Activation::kTanh, Activation::kIdentity}) {
    auto y = x;
    activate(activation, y);
    for (size_t i = 0; i < x.size(); ++i) {
      // 1.5e-7 of the formula and a few roundings, in proportion to |x| (GELU) or to 1 (tanh)
      const double bound = 4e-7 * std::fmax(1.0, std::fabs(double{x[i]}));
      REQUIRE(std::fabs(y[i] - activation_reference(activation, double{x[i]})) <= bound);
    }
  }
}

TEST_CASE("exp of what is not positive, down to where it ends") {
  const auto x = grid(-87.3F, 0, 200'001);
  auto y = x;
  exp_nonpositive(y);
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = std::exp(double{x[i]});
    REQUIRE(std::fabs(y[i] - expected) <= 3e-7 * expected);
  }
  std::vector<float> far = {-88, -1e30F, -INFINITY};
  exp_nonpositive(far);
  for (const float value : far) CHECK((value > 0 && value < 1.3e-38F));
}

TEST_CASE("where a value stands changes no bit of it") {
  const auto x = grid(-3, 0, 23);
  for (const Activation activation : {Activation::kGelu, Activation::kGeluTanh, Activation::kTanh}) {
    auto together = x;
    activate(activation, together);
    for (size_t i = 0; i < x.size(); ++i) {
      float alone = x[i];
      activate(activation, {&alone, 1});
      CHECK(alone == together[i]);
    }
  }
}

TEST_CASE("softmax rows sum to one, whatever their size") {
  for (const size_t width : {1, 2, 4, 5, 64, 67}) {
    auto rows = grid(-500, 300, 3 * width);
    softmax_rows(rows, width, 0.25F);
    for (size_t row = 0; row < 3; ++row) {
      double sum = 0;
      for (size_t i = 0; i < width; ++i) sum += rows[row * width + i];
      CHECK(sum == doctest::Approx(1).epsilon(1e-6));
    }
  }
  std::vector<float> row = {1, 2, 3};
  softmax_rows(row, 3, 1);
  CHECK(row[0] == doctest::Approx(0.09003057).epsilon(1e-6));
  CHECK(row[2] == doctest::Approx(0.66524096).epsilon(1e-6));
}

TEST_CASE("layer norm centres and scales each row") {
  std::vector<float> rows = {1, 2, 3, 4, -2, -2, -2, -2};
  const std::vector<float> weight = {1, 1, 2, 1};
  const std::vector<float> bias = {0, 0, 0, 5};
  layer_norm_rows(rows, weight, bias, 1e-5F);
  const double s = std::sqrt(1.25 + 1e-5);
  CHECK(rows[0] == doctest::Approx(-1.5 / s));
  CHECK(rows[2] == doctest::Approx(2 * 0.5 / s));
  CHECK(rows[3] == doctest::Approx(1.5 / s + 5));
  CHECK(rows[4] == 0);
  CHECK(rows[7] == 5);
}

TEST_CASE("pooling modes are read in both spellings") {
  const auto modes = [](const char* text) { return parse_pooling(JsonFile("config.json", text)); };
  CHECK(modes("{}") == std::vector{PoolingMode::kMean});
  CHECK(modes(R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})") ==
        std::vector{PoolingMode::kCls, PoolingMode::kMean});
  CHECK(modes(R"({"pooling_mode": "max"})") == std::vector{PoolingMode::kMax});
  CHECK(modes(R"({"pooling_mode": ["lasttoken", "weightedmean"]})") ==
        std::vector{PoolingMode::kLastToken, PoolingMode::kWeightedMean});
  CHECK_THROWS_AS(modes(R"({"pooling_mode": "median"})"), Error);
}

}  // namespace
}  // namespace crumb::encoder

// The loops over A2Q's rows (a norm, sums, codes toward zero and gradients) against their definitions, by
// every variant.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "quant/loops/loops.h"
#include "tests/quant/loop_variants.h"

using crumb::Loops;
using crumb::testing::variants;

namespace {

/// The terms of whole vectors in lanes, folded; then what is left over.
double sum_in_lanes(const std::vector<double>& terms, size_t lanes) {
  std::array<double, crumb::kErrorLanes> sums{};
  const size_t whole = terms.size() / lanes * lanes;
  for (size_t i = 0; i < whole; ++i) sums[i % lanes] += terms[i];
  double sum = crumb::fold_lanes(sums);
  for (size_t i = whole; i < terms.size(); ++i) sum += terms[i];
  return sum;
}

/// Numbers whose sum in double depends on its order.
std::vector<float> of_many_sizes(size_t n, uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<float> x(n);
  for (float& v : x) {
    const float size = static_cast<float>(engine()) * 0x1p-31F - 1;
    v = std::ldexp(size, static_cast<int>(engine() % 61) - 30);
  }
  return x;
}

}  // namespace

TEST_CASE("loops: rows of A2Q, every variant at every length, and all variants alike") {
  std::mt19937 engine(13);
  std::normal_distribution<float> normal(0.1F, 1);
  for (size_t n = 0; n <= 70; ++n) {
    std::vector<float> x(n), grad(n);
    for (size_t i = 0; i < n; ++i) {
      x[i] = normal(engine);
      grad[i] = normal(engine);
    }
    double sum = 0;
    for (const float v : x) sum += static_cast<double>(v);
    const double mean = n == 0 ? 0 : sum / static_cast<double>(n), pre = 0.21;
    std::vector<std::vector<float>> all;
    for (const Loops* loops : variants()) {
      CAPTURE(loops->name);
      CAPTURE(n);
      CHECK(loops->row_sum(x.data(), n) == doctest::Approx(sum).epsilon(1e-12).scale(1));
      double norm = 0, along = 0, of_values = 0, sign = 0, grads = 0;
      std::vector<float> values(n), made(n);
      const crumb::SignedSums sums = loops->row_codes(x.data(), n, mean, pre, 7, 0.5F, values.data());
      crumb::SignedSums expected{.positive = 0, .negative = 0};
      for (size_t i = 0; i < n; ++i) {
        const double v = static_cast<double>(x[i]) - mean, g = static_cast<double>(grad[i]);
        const auto q = static_cast<int64_t>(std::trunc(std::clamp(v / pre, -7.0, 7.0)));
        (q > 0 ? expected.positive : expected.negative) += q;
        CHECK(std::bit_cast<uint32_t>(values[i]) == std::bit_cast<uint32_t>(static_cast<float>(q) * 0.5F));
        norm += std::fabs(v);
        along += g * v;
        of_values += g * static_cast<double>(values[i]);
        grads += g;
        sign += v >= 0 ? 1 : -1;
      }
      CHECK(sums.positive == expected.positive);
      CHECK(sums.negative == expected.negative);
      CHECK(loops->row_norm(x.data(), n, mean) == doctest::Approx(norm).epsilon(1e-12).scale(1));
      const crumb::RowSums found = loops->row_sums(x.data(), grad.data(), values.data(), n, mean);
      CHECK(found.along == doctest::Approx(along).epsilon(1e-12).scale(1));
      CHECK(found.values == doctest::Approx(of_values).epsilon(1e-12).scale(1));
      CHECK(found.grad == doctest::Approx(grads).epsilon(1e-12).scale(1));
      CHECK(found.sign == sign);
      loops->row_gradients(x.data(), grad.data(), n, mean, 0.3, 0.7, 0.01, made.data());
      for (size_t i = 0; i < n; ++i) {
        const double share = static_cast<double>(x[i]) - mean >= 0 ? 0.7 : -0.7;
        CHECK(made[i] == static_cast<float>(0.3 * static_cast<double>(grad[i]) - share - 0.01));
      }
      values.insert(values.end(), made.begin(), made.end());
      all.push_back(values);
      CHECK(all.back() == all.front());
    }
  }
}

TEST_CASE("loops: sums of A2Q's rows have one order, bit for bit") {
  const auto same = [](double a, double b) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  };
  size_t ordered = 0;
  for (size_t n = 0; n <= 70; ++n) {
    const auto seed = static_cast<uint32_t>(n);
    const std::vector<float> x = of_many_sizes(n, 3 * seed), grad = of_many_sizes(n, 3 * seed + 1),
                             y = of_many_sizes(n, 3 * seed + 2);
    const double mean = 0.1;
    std::vector<double> values, distances, along, of_values, grads;
    for (size_t i = 0; i < n; ++i) {
      const double v = static_cast<double>(x[i]) - mean, g = static_cast<double>(grad[i]);
      values.push_back(static_cast<double>(x[i]));
      distances.push_back(std::fabs(v));
      along.push_back(g * v);
      of_values.push_back(g * static_cast<double>(y[i]));
      grads.push_back(g);
    }
    for (const Loops* loops : variants()) {
      CAPTURE(loops->name);
      CAPTURE(n);
      CHECK(same(loops->row_sum(x.data(), n), sum_in_lanes(values, 16)));
      CHECK(same(loops->row_norm(x.data(), n, mean), sum_in_lanes(distances, 16)));
      const crumb::RowSums sums = loops->row_sums(x.data(), grad.data(), y.data(), n, mean);
      CHECK(same(sums.along, sum_in_lanes(along, 8)));
      CHECK(same(sums.values, sum_in_lanes(of_values, 8)));
      CHECK(same(sums.grad, sum_in_lanes(grads, 8)));
    }
    ordered += !same(sum_in_lanes(values, 16), sum_in_lanes(values, 1));
  }
  CHECK(ordered > 20);  // another order would have shown
}

TEST_CASE("loops: gradients of A2Q's rows keep the sign of zero") {
  for (size_t n = 0; n <= 40; ++n) {
    std::vector<float> x(n), grad(n), made(n);
    for (size_t i = 0; i < n; ++i) {
      x[i] = i % 3 == 0 ? 0.0F : i % 3 == 1 ? 1.0F : -1.0F;
      grad[i] = i % 5 == 0 ? 1.5F : i % 2 == 0 ? 0.0F : -0.0F;
    }
    for (const double of_sign : {0.0, -0.0, 0.7}) {
      for (const double less : {0.0, -0.0, 0.7}) {
        for (const Loops* loops : variants()) {
          CAPTURE(loops->name);
          loops->row_gradients(x.data(), grad.data(), n, 0, 0.3, of_sign, less, made.data());
          for (size_t i = 0; i < n; ++i) {
            CAPTURE(i);
            const double share = x[i] >= 0 ? of_sign : -of_sign;
            const auto expected = static_cast<float>(0.3 * static_cast<double>(grad[i]) - share - less);
            CHECK(std::bit_cast<uint32_t>(made[i]) == std::bit_cast<uint32_t>(expected));
          }
        }
      }
    }
  }
}

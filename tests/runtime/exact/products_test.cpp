// Products of floats: every way has the bits of the definition, and those lie near the true sums.
#include "runtime/exact/products.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "base/processor.h"
#include "tests/support/testing.h"

using crumb::runtime::exact::dot_ref;
using crumb::runtime::exact::multiply;
using crumb::runtime::exact::multiply_avx2;
using crumb::runtime::exact::multiply_avx512;
using crumb::runtime::exact::multiply_ref;
using crumb::runtime::exact::Products;

namespace {

/// Operands in memory that is larger than they are, with numbers of all sizes, zeros of both signs among them.
struct Drawn {
  std::vector<float> x, w, y;
  Products products;

  explicit Drawn(std::mt19937_64& engine, std::size_t most = 9) {
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
    products.rows = below(most);
    products.columns = below(most);
    products.terms = below(71);
    products.x_stride = products.terms + below(5);
    products.w_stride = products.terms + below(5);
    const bool turned = below(2) == 1;
    products.y_row = turned ? 1 : products.columns + below(3);
    products.y_column = turned ? products.rows + below(3) : 1;
    const int spread = static_cast<int>(below(3)) * 12;
    const auto draw = [&](std::size_t count) {
      std::vector<float> values(count + 8);
      std::normal_distribution<float> normal;
      for (float& v : values) {
        v = std::ldexp(normal(engine), static_cast<int>(engine() % 25) * spread / 24 - spread / 2);
        if (engine() % 16 == 0) v = engine() % 2 == 0 ? 0.0F : -0.0F;
        if (spread == 24 && engine() % 64 == 0) v = std::ldexp(v, -90);  // products below the least number
      }
      return values;
    };
    x = draw(products.rows * products.x_stride);
    w = draw(products.columns * products.w_stride);
    y.assign(products.rows * products.columns * 4 + 64, 7.0F);
    products.x = x.data();
    products.w = w.data();
    products.y = y.data();
  }
};

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float v : values) bits.push_back(std::bit_cast<std::uint32_t>(v));
  return bits;
}

}  // namespace

TEST_CASE("products: every way has the definition's bits, and writes nothing else") {
  std::mt19937_64 engine(5);
  for (int round = 0; round < 4000; ++round) {
    CAPTURE(round);
    Drawn drawn(engine, round % 2 == 0 ? 9 : 40);  // large ones are packed first
    multiply_ref(drawn.products);
    const std::vector<float> expected = drawn.y;
    const auto again = [&](const auto& way) {
      drawn.y.assign(drawn.y.size(), 7.0F);
      drawn.products.y = drawn.y.data();
      way(drawn.products);
      return bits_of(drawn.y) == bits_of(expected);
    };
    CHECK(again([](const Products& p) { multiply(p, 1); }));
    if (crumb::may_use(crumb::Isa::kAvx2)) CHECK(again(multiply_avx2));
    if (crumb::may_use(crumb::Isa::kAvx512)) CHECK(again(multiply_avx512));
  }
}

TEST_CASE("products: threads share the work, and change no bit") {
  std::mt19937_64 engine(6);
  for (const auto& [rows, columns] :
       {std::pair<std::size_t, std::size_t>{1000, 37}, {37, 1000}, {1, 9000}, {9000, 1}}) {
    Drawn drawn(engine, 2);
    const std::size_t terms = 67;
    std::vector<float> x(rows * terms), w(columns * terms), y(rows * columns), again(rows * columns);
    std::normal_distribution<float> normal;
    for (auto* values : {&x, &w}) {
      for (float& v : *values) v = normal(engine);
    }
    Products p{.rows = rows,
               .columns = columns,
               .terms = terms,
               .x = x.data(),
               .x_stride = terms,
               .w = w.data(),
               .w_stride = terms,
               .y = y.data(),
               .y_row = columns};
    multiply(p, 1);
    for (const int threads : {0, 2, 3, 7}) {
      p.y = again.data();
      multiply(p, threads);
      CHECK(bits_of(again) == bits_of(y));
    }
    for (int i = 0; i < 50; ++i) {
      const std::size_t m = engine() % rows, n = engine() % columns;
      CHECK(y[m * columns + n] == dot_ref(&x[m * terms], &w[n * terms], terms));
    }
  }
}

TEST_CASE("products: a sum is within what sixteen partial sums may lose") {
  std::mt19937_64 engine(7);
  std::normal_distribution<float> normal;
  for (std::size_t terms = 0; terms < 400; ++terms) {
    std::vector<float> x(terms), w(terms);
    double sum = 0, size = 0;
    for (std::size_t k = 0; k < terms; ++k) {
      x[k] = normal(engine);
      w[k] = normal(engine);
      const double product = static_cast<double>(x[k]) * static_cast<double>(w[k]);
      sum += product;
      size += std::fabs(product);
    }
    // One rounding a fused step and four in the tree, each of at most half a unit of a partial sum.
    const double steps = static_cast<double>((terms + 15) / 16 + 4);
    CHECK(std::fabs(static_cast<double>(dot_ref(x.data(), w.data(), terms)) - sum) <=
          size * steps * 0x1p-24 * 1.01);
  }
}

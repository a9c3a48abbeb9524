// Products of many rows: outputs that are laid out term by term give the bits of the definition.
#include "runtime/exact/many_rows.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "base/processor.h"
#include "runtime/exact/term_products.h"
#include "tests/support/testing.h"

using namespace crumb;
using namespace crumb::runtime::exact;

namespace {

std::vector<std::uint32_t> bits_in(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float v : values) bits.push_back(std::bit_cast<std::uint32_t>(v));
  return bits;
}

/// Operands with zeros of both signs and numbers of many sizes, in memory that is larger than they are.
struct ManyRows {
  std::vector<float> x, w, y;
  Products products;

  ManyRows(std::mt19937_64& engine, std::size_t most_rows, std::size_t most_columns, std::size_t terms) {
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
    products.rows = 1 + below(most_rows);
    products.columns = 1 + below(most_columns);
    products.terms = terms;
    products.x_stride = terms + below(3);
    products.w_stride = terms + below(3);
    products.y_row = products.columns + below(3);
    const auto draw = [&](std::size_t count) {
      std::vector<float> values(count);
      for (float& v : values) {
        v = std::ldexp(static_cast<float>(below(2001)) - 1000, static_cast<int>(below(24)) - 20);
        if (below(16) == 0) v = below(2) == 0 ? 0.0F : -0.0F;
      }
      return values;
    };
    x = draw(products.rows * products.x_stride);
    w = draw(products.columns * products.w_stride);
    products.x = x.data();
    products.w = w.data();
  }

  template <class Way>
  std::vector<std::uint32_t> made_by(const Way& way) {
    y.assign(products.rows * products.y_row + 64, 7.0F);
    products.y = y.data();
    way(products);
    return bits_in(y);
  }
};

}  // namespace

TEST_CASE("many rows: laid out outputs have the definition's bits, and nothing else is written") {
  if (!may_use(Isa::kAvx2)) return testing::skip("this processor has no AVX2");
  std::mt19937_64 engine(21);
  int large = 0;
  for (int round = 0; round < (testing::slow() ? 4000 : 400); ++round) {
    CAPTURE(round);
    const bool is_large = round % 40 == 0;
    const std::size_t terms = is_large ? 1500 + engine() % 200 : 2 + engine() % 260;
    ManyRows drawn(engine, is_large ? 120 : 60, round % 8 == 1 ? 200 : 70, terms);
    if (round % 16 == 5) drawn = ManyRows(engine, 200, 200, 2 + engine() % 127);
    if (round % 50 == 3)
      drawn = ManyRows(engine, 600, 80, 2 + engine() % 20);  // more than are packed at a time
    REQUIRE(takes_many(drawn.products));
    const auto expected = drawn.made_by(multiply_ref);
    const int threads = static_cast<int>(1 + engine() % 3);
    CHECK(drawn.made_by([&](const Products& p) {
      multiply_many(
          p,
          [&](std::size_t first, std::size_t count, float* to, std::size_t stride) {
            REQUIRE((count > 0 && count <= 64 && first + count <= p.columns));
            rows_to_terms(p.w + first * p.w_stride, p.w_stride, count, p.terms, to, stride);
          },
          threads);
    }) == expected);
    CHECK(drawn.made_by([&](const Products& p) { multiply(p, threads); }) == expected);
    large += is_faster_for_rows(drawn.products);
  }
  CHECK(large > 10);
}

TEST_CASE("many rows: rows are transposed to where terms are read") {
  std::mt19937_64 engine(22);
  for (int round = 0; round < 1000; ++round) {
    ManyRows drawn(engine, 1, 40, 1 + engine() % 80);
    const Products& p = drawn.products;
    const std::size_t stride = p.columns + engine() % 20;
    std::vector<float> expected(panel_rows(p.terms) * stride, 7.0F), made(expected);
    rows_to_terms_ref(p.w, p.w_stride, p.columns, p.terms, expected.data(), stride);
    rows_to_terms(p.w, p.w_stride, p.columns, p.terms, made.data(), stride);
    REQUIRE(bits_in(made) == bits_in(expected));
  }
}

// Integer products: every way gives the sums of the definition, and those are the exact ones.
#include "runtime/integer/products.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "base/processor.h"
#include "tests/support/testing.h"

using crumb::runtime::integer::multiply;
using crumb::runtime::integer::multiply_avx2;
using crumb::runtime::integer::multiply_ref;
using crumb::runtime::integer::padded;
using crumb::runtime::integer::Products;

namespace {

struct Drawn {
  std::vector<std::int16_t> x, w;
  Products products;

  explicit Drawn(std::mt19937_64& engine) {
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
    const std::size_t terms = below(100);
    products = {.rows = below(10), .columns = below(14), .terms = padded(terms)};
    products.y_stride = products.rows + below(4);
    const int most = below(4) == 0   ? 32767
                     : below(2) == 0 ? 255
                                     : 7;  // sums stay below 2^31: 100 * 255 * 32767
    const auto draw = [&](std::size_t rows, int limit) {
      std::vector<std::int16_t> values(rows * products.terms, 0);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t k = 0; k < terms; ++k) {
          const int v = static_cast<int>(engine() % static_cast<unsigned>(2 * limit + 1)) - limit;
          values[r * products.terms + k] = static_cast<std::int16_t>(engine() % 8 == 0 ? limit : v);
        }
      }
      return values;
    };
    x = draw(products.rows, 255);
    w = draw(products.columns, most);
    products.x = x.data();
    products.w = w.data();
  }

  std::vector<std::int32_t> by(void (*way)(const Products&)) {
    std::vector<std::int32_t> y(products.columns * products.y_stride + 8, 77);
    products.y = y.data();
    way(products);
    return y;
  }

  std::vector<std::int32_t> exact() {
    std::vector<std::int32_t> y(products.columns * products.y_stride + 8, 77);
    for (std::size_t n = 0; n < products.columns; ++n) {
      for (std::size_t m = 0; m < products.rows; ++m) {
        std::int64_t sum = 0;
        for (std::size_t k = 0; k < products.terms; ++k)
          sum += std::int64_t{x[m * products.terms + k]} * w[n * products.terms + k];
        y[n * products.y_stride + m] = static_cast<std::int32_t>(sum);
      }
    }
    return y;
  }
};

}  // namespace

TEST_CASE("integer products are the exact sums, and nothing else is written") {
  std::mt19937_64 engine(16);
  for (int round = 0; round < 4000; ++round) {
    Drawn drawn(engine);
    const auto expected = drawn.exact();
    REQUIRE(drawn.by(multiply_ref) == expected);
    REQUIRE(drawn.by(multiply) == expected);
    if (crumb::may_use(crumb::Isa::kAvx2)) REQUIRE(drawn.by(multiply_avx2) == expected);
  }
  if (!crumb::may_use(crumb::Isa::kAvx2)) crumb::testing::skip("AVX2: this processor has none");
}

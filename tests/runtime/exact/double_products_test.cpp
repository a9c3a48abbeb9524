// Products of doubles: every way has the definition's bits.
#include "runtime/exact/double_products.h"

#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <random>
#include <vector>

#include "base/processor.h"

using crumb::runtime::exact::DoubleProducts;
using crumb::runtime::exact::subtract_products;
using crumb::runtime::exact::subtract_products_avx2;
using crumb::runtime::exact::subtract_products_avx512;
using crumb::runtime::exact::subtract_products_ref;

TEST_CASE("products of doubles: every way has the definition's bits, and writes nothing else") {
  std::mt19937_64 engine(11);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
  std::normal_distribution<double> normal;
  const auto draw = [&](std::size_t count) {
    std::vector<double> values(count + 3);
    for (double& value : values) value = below(16) == 0 ? 0.0 : normal(engine);
    return values;
  };
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    const std::size_t rows = below(20), columns = below(60), terms = below(round % 8 == 0 ? 300 : 40);
    const bool is_transposed = below(2) == 1;
    DoubleProducts p{.rows = rows, .columns = columns, .terms = terms};
    p.x_row = is_transposed ? 1 : terms + below(3);
    p.x_term = is_transposed ? rows + below(3) : 1;
    p.w_row = columns + below(3);
    p.y_row = columns + below(3);
    const std::vector<double> x = draw((rows + 3) * (terms + 3)), w = draw(terms * p.w_row),
                              y = draw(rows * p.y_row);
    p.x = x.data();
    p.w = w.data();
    std::vector<double> expected = y;
    p.y = expected.data();
    subtract_products_ref(p);
    const auto is_alike = [&](void (*way)(const DoubleProducts&)) {
      std::vector<double> made = y;
      p.y = made.data();
      way(p);
      for (std::size_t i = 0; i < made.size(); ++i)
        if (std::bit_cast<std::uint64_t>(made[i]) != std::bit_cast<std::uint64_t>(expected[i])) return false;
      return true;
    };
    CHECK(is_alike(subtract_products));
    if (crumb::may_use(crumb::Isa::kAvx2)) CHECK(is_alike(subtract_products_avx2));
    if (crumb::may_use(crumb::Isa::kAvx512)) CHECK(is_alike(subtract_products_avx512));
  }
}

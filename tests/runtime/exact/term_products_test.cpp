// Products of terms that lie apart: every way has the bits of the definition, which are those of products.h.
#include "runtime/exact/term_products.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/processor.h"
#include "runtime/exact/products.h"
#include "tests/support/number_bits.h"

using crumb::runtime::exact::dot_ref;
using crumb::runtime::exact::PartialTerms;
using crumb::runtime::exact::place_of_term;
using crumb::runtime::exact::TermProducts;
using crumb::runtime::exact::TermsThen;
using crumb::testing::number_bits;

namespace {

/// Operands in memory of their own size, so that a read or write beyond it is seen, with numbers of all
/// sizes, zeros of both signs, products below the least number, and rarely infinities.
struct DrawnTerms {
  std::vector<float> x, w, bias, slopes, y;
  std::vector<std::size_t> offsets;
  TermProducts products;

  explicit DrawnTerms(std::mt19937_64& engine) {
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
    products.outputs = 1 + below(15);
    products.lines = below(2) == 0 ? 1 : 1 + below(6);
    products.positions = 1 + below(products.lines == 1 ? 200 : 40);
    products.terms = below(3) == 0 ? below(20) : below(120);
    if (below(4) == 0) products.terms = below(2) == 0 ? 9 : 25;
    if (below(6) == 0) products.terms = 180 + below(200);  // in larger tiles
    products.w_stride = products.terms + below(5);
    products.y_line = products.positions + below(3);
    products.y_stride = products.lines * products.y_line + below(3);
    products.x_line = below(3) == 0 ? below(3) : products.positions + below(7);
    const std::size_t spots = below(3) == 0 ? 1 + below(8) : 1 + products.terms * 11;  // runs overlap or not
    for (std::size_t k = 0; k < products.terms; ++k) offsets.push_back(below(spots));
    products.x_offsets = offsets.data();
    const std::size_t spread = below(3) * 12;
    const bool has_infinities = below(20) == 0;
    const auto draw = [&](std::size_t rows, std::size_t stride, std::size_t columns) {
      std::vector<float> values(rows == 0 ? 0 : (rows - 1) * stride + columns);
      std::normal_distribution<float> normal;
      for (float& v : values) {
        v = std::ldexp(normal(engine),
                       static_cast<int>(below(25) * spread / 24) - static_cast<int>(spread / 2));
        if (below(16) == 0) v = below(2) == 0 ? 0.0F : -0.0F;
        if (spread == 24 && below(8) == 0) v = std::ldexp(v, -90);
        if (has_infinities && below(200) == 0) v = std::numeric_limits<float>::infinity();
        if (has_infinities && below(400) == 0) v = std::numeric_limits<float>::quiet_NaN();
      }
      return values;
    };
    std::size_t farthest = 0;
    for (const std::size_t offset : offsets) farthest = std::max(farthest, offset);
    products.x_has_room = below(2) == 0;
    products.x_ahead = below(2) == 0 ? 0 : below(5000);  // beyond all memory, too
    const std::size_t room = products.x_has_room ? crumb::runtime::exact::kTermRoom : 0;
    x = draw(1, 0, farthest + (products.lines - 1) * products.x_line + products.positions + room);
    w = draw(products.outputs, products.w_stride, products.terms);
    if (below(2) == 0) bias = draw(1, 0, products.outputs);
    y.assign((products.outputs - 1) * products.y_stride + (products.lines - 1) * products.y_line +
                 products.positions,
             7.0F);
    const std::size_t then = below(4);
    if (then == 1) {
      const std::vector<float> limits = draw(1, 0, 2);
      products.then = {.what = TermsThen::What::kClip, .least = limits[0], .most = limits[1]};
    } else if (then == 2) {
      slopes = draw(1, 0, products.outputs);
      products.then = {.what = TermsThen::What::kSlope, .slopes = slopes.data(), .slopes_step = below(2)};
    }
    products.x = x.data();
    products.w = w.data();
    products.bias = bias.empty() ? nullptr : bias.data();
    products.y = y.data();
  }
};

}  // namespace

TEST_CASE("term products: each term has one place in the order of reading, partial sum by partial sum") {
  using crumb::runtime::exact::kPartialOrder;
  for (std::size_t terms = 0; terms < 100; ++terms) {
    std::size_t before = 0;
    for (const std::size_t partial : kPartialOrder) {
      CHECK(kPartialOrder[kPartialOrder[partial]] == partial);  // which HeadRows relies on
      for (std::size_t k = partial; k < terms; k += 16)
        REQUIRE(crumb::runtime::exact::reads_before_term(k, terms) == before++);
    }
    CHECK(before == terms);
  }
}

TEST_CASE("term products: every way has the definition's bits, and writes nothing else") {
  std::mt19937_64 engine(50);
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    DrawnTerms drawn(engine);
    const TermProducts& p = drawn.products;
    std::vector<float> expected = drawn.y;
    for (std::size_t n = 0; n < p.outputs; ++n) {
      for (std::size_t at = 0; at < p.lines * p.positions; ++at) {
        const std::size_t line = at / p.positions, position = at % p.positions;
        std::vector<float> row;
        for (std::size_t k = 0; k < p.terms; ++k)
          row.push_back(p.x[line * p.x_line + p.x_offsets[place_of_term(k, p.terms)] + position]);
        float& y = expected[n * p.y_stride + line * p.y_line + position];
        y = dot_ref(row.data(), p.w + n * p.w_stride, p.terms);
        if (p.bias) y += p.bias[n];
        if (p.then.what == TermsThen::What::kClip) {
          y = y < p.then.least ? p.then.least : y;
          y = y > p.then.most ? p.then.most : y;
        } else if (p.then.what == TermsThen::What::kSlope && y < 0) {
          y *= p.then.slopes[n * p.then.slopes_step];
        }
      }
    }
    const auto is_same_by = [&](const auto& way) {
      drawn.y.assign(drawn.y.size(), 7.0F);
      way(p);
      return number_bits(drawn.y) == number_bits(expected);
    };
    std::vector<float> packed(p.outputs * p.terms);
    crumb::runtime::exact::pack_terms(p.w, p.w_stride, p.outputs, p.terms, packed.data());
    for (const float* packing :
         {static_cast<const float*>(nullptr), static_cast<const float*>(packed.data())}) {
      CAPTURE(packing != nullptr);
      drawn.products.packed = packing;
      CHECK(is_same_by(crumb::runtime::exact::multiply_terms_ref));
      CHECK(is_same_by(crumb::runtime::exact::multiply_terms));
      if (crumb::may_use(crumb::Isa::kAvx2)) CHECK(is_same_by(crumb::runtime::exact::multiply_terms_avx2));
      if (crumb::may_use(crumb::Isa::kAvx512))
        CHECK(is_same_by(crumb::runtime::exact::multiply_terms_avx512));
    }
  }
}

TEST_CASE("term products: terms that are divided among partial sums in any way, some of which have none") {
  std::mt19937_64 engine(51);
  for (int round = 0; round < 1000; ++round) {
    CAPTURE(round);
    DrawnTerms drawn(engine);
    TermProducts& p = drawn.products;
    std::size_t counts[16] = {}, left = p.terms;
    const std::size_t most = 1 + engine() % 16;  // partial sums that have any
    while (left > 0) {
      const std::size_t some = std::min<std::size_t>(left, 1 + engine() % 40);
      counts[engine() % most * 7 % 16] += some;
      left -= some;
    }
    const PartialTerms partial = PartialTerms::of(counts);
    p.partial = &partial;
    std::vector<float> expected = drawn.y;
    p.y = expected.data();
    crumb::runtime::exact::multiply_terms_ref(p);
    for (std::size_t n = 0; n < p.outputs && p.then.what == TermsThen::What::kNothing; ++n) {
      float sums[16] = {};
      for (std::size_t i = 0, at = 0; i < 16; ++i)
        for (std::size_t end = at + counts[i]; at < end; ++at)
          sums[i] = std::fma(p.x[p.x_offsets[at]], p.w[n * p.w_stride + at], sums[i]);
      const float sum = crumb::runtime::exact::fold(sums) + (p.bias ? p.bias[n] : 0.0F);
      CHECK((std::isnan(sum) ? std::isnan(expected[n * p.y_stride]) : sum == expected[n * p.y_stride]));
    }
    const auto is_same_by = [&](const auto& way) {
      drawn.y.assign(drawn.y.size(), 7.0F);
      p.y = drawn.y.data();
      way(p);
      return number_bits(drawn.y) == number_bits(expected);
    };
    CHECK(is_same_by(crumb::runtime::exact::multiply_terms));
    if (crumb::may_use(crumb::Isa::kAvx2)) CHECK(is_same_by(crumb::runtime::exact::multiply_terms_avx2));
    if (crumb::may_use(crumb::Isa::kAvx512)) CHECK(is_same_by(crumb::runtime::exact::multiply_terms_avx512));
  }
}

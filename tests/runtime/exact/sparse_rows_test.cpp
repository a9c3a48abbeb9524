// Products by few numbers among zeros: the bits of those by the whole matrix.
#include "runtime/exact/sparse_rows.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/processor.h"

namespace {

using namespace crumb::runtime::exact;

struct SparseCase {
  std::size_t rows = 0, outputs = 0, terms = 0;
  std::vector<float> x, w;
  std::vector<SparseRows::Placed> placed;
};

/// Numbers of all sizes; now and then zeros of both signs, and such that products fall below what float32 has.
float uneven_number(std::mt19937& random) {
  std::normal_distribution<float> normal;
  switch (random() % 12) {
    case 0: return 0.0F;
    case 1: return -0.0F;
    case 2: return normal(random) * 0x1p-80F;
    case 3: return normal(random) * 0x1p60F;
    default: return normal(random);
  }
}

SparseCase sparse_case(std::mt19937& random) {
  const auto size = [&](std::size_t most) { return 1 + random() % most; };
  SparseCase made{.rows = size(40), .outputs = size(30), .terms = size(100)};
  made.x.resize(made.rows * made.terms);
  for (float& value : made.x) value = uneven_number(random);
  made.w.assign(made.outputs * made.terms, 0.0F);
  // From nothing to all.
  const double share = std::array{0.0, 0.01, 0.1, 0.5, 1.0}[random() % 5];
  std::uniform_real_distribution<double> chance;
  for (std::size_t i = 0; i < made.w.size(); ++i) {
    if (chance(random) >= share) continue;
    made.w[i] = uneven_number(random);
    if (made.w[i] == 0) made.w[i] = 1;
    made.placed.push_back({i / made.terms, i % made.terms, made.w[i]});
  }
  std::ranges::shuffle(made.placed, random);
  return made;
}

bool is_same_number(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

void check_whole_matrix(const SparseCase& one, const std::vector<float>& x, int threads) {
  // Rows of y, or columns, one behind the other, with a gap.
  for (const bool is_transposed : {false, true}) {
    const std::size_t gap = 3;
    std::vector<float> meant((one.rows + gap) * (one.outputs + gap), -7.0F), made = meant;
    Products product{.rows = one.rows,
                     .columns = one.outputs,
                     .terms = one.terms,
                     .x = x.data(),
                     .x_stride = one.terms,
                     .w = one.w.data(),
                     .w_stride = one.terms,
                     .y = meant.data(),
                     .y_row = is_transposed ? 1 : one.outputs + gap,
                     .y_column = is_transposed ? one.rows + gap : 1};
    multiply_ref(product);
    product.y = made.data();
    product.w = nullptr;
    SparseRows(one.outputs, one.terms, one.placed).multiply(product, threads);
    for (std::size_t i = 0; i < meant.size(); ++i) {
      if (is_same_number(made[i], meant[i])) continue;
      CAPTURE(i);
      CAPTURE(one.terms);
      REQUIRE(made[i] == meant[i]);
      REQUIRE(std::signbit(made[i]) == std::signbit(meant[i]));
    }
  }
}

}  // namespace

TEST_CASE("sparse rows: sums have the bits of the whole matrix'") {
  std::mt19937 random(21);
  for (int i = 0; i < 1500; ++i) {
    const SparseCase one = sparse_case(random);
    check_whole_matrix(one, one.x, i % 3);
  }
}

TEST_CASE("sparse rows: long rows, some without zeros") {
  std::mt19937 random(25);
  SparseCase one{.rows = 3, .outputs = 3, .terms = 9001};
  one.x.resize(one.rows * one.terms);
  for (float& value : one.x) value = uneven_number(random);
  one.w.assign(one.outputs * one.terms, 0.0F);
  for (std::size_t i = 0; i < one.w.size(); ++i) {
    if (i / one.terms != 1 && random() % 50 != 0) continue;
    one.w[i] = 1 + uneven_number(random);
    one.placed.push_back({i / one.terms, i % one.terms, one.w[i]});
  }
  check_whole_matrix(one, one.x, 2);
}

TEST_CASE("sparse rows: zeros count beside what is infinite or no number") {
  std::mt19937 random(22);
  for (int i = 0; i < 100; ++i) {
    const SparseCase one = sparse_case(random);
    std::vector<float> x = one.x;
    for (int k = 0; k < 3; ++k)
      x[random() % x.size()] =
          k == 0 ? std::numeric_limits<float>::quiet_NaN()
                 : std::copysign(std::numeric_limits<float>::infinity(), k == 1 ? 1.0F : -1.0F);
    check_whole_matrix(one, x, 1);
  }
}

TEST_CASE("sparse rows: both ways give the same") {
  if (!crumb::may_use(crumb::Isa::kAvx2)) {
    MESSAGE("skipped: no AVX2 here");
    return;
  }
  std::mt19937 random(23);
  for (int i = 0; i < 100; ++i) {
    const SparseCase one = sparse_case(random);
    const SparseRows rows(one.outputs, one.terms, one.placed);
    std::vector<float> x(one.terms * kSparseLanes);
    for (float& value : x) value = uneven_number(random);
    for (const std::size_t lanes : {std::size_t{1}, 2 + random() % (kSparseLanes - 1)}) {
      for (std::size_t n = 0; n < one.outputs; ++n) {
        float slow[kSparseLanes] = {}, fast[kSparseLanes] = {};
        sparse_row_portable(rows.row(n), x.data(), lanes, slow, 1);
        sparse_row_avx2(rows.row(n), x.data(), lanes, fast, 1);
        for (std::size_t lane = 0; lane < kSparseLanes; ++lane)
          REQUIRE(is_same_number(slow[lane], fast[lane]));
      }
    }
  }
}

TEST_CASE("sparse rows: a row is what it was made of") {
  std::mt19937 random(24);
  const SparseCase one = sparse_case(random);
  const SparseRows rows(one.outputs, one.terms, one.placed);
  std::vector<float> row(one.terms);
  for (std::size_t n = 0; n < one.outputs; ++n) {
    rows.values(n, row);
    for (std::size_t k = 0; k < one.terms; ++k) REQUIRE(row[k] == one.w[n * one.terms + k]);
  }
}

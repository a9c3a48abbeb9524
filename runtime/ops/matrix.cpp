// Products of matrices.
#include <algorithm>

#include "runtime/exact/products.h"
#include "runtime/ops/broadcast.h"
#include "runtime/ops/families.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

/// The matrix [rows, columns] with its axes changed.
std::vector<float> turned(const float* x, std::size_t rows, std::size_t columns) {
  constexpr std::size_t kTile = 16;
  std::vector<float> made(rows * columns);
  for (std::size_t r = 0; r < rows; r += kTile) {
    for (std::size_t c = 0; c < columns; c += kTile) {
      for (std::size_t i = r; i < std::min(rows, r + kTile); ++i) {
        for (std::size_t k = c; k < std::min(columns, c + kTile); ++k)
          made[k * rows + i] = x[i * columns + k];
      }
    }
  }
  return made;
}

/// The second operand of a product, a constant, each matrix [terms, columns] turned: rows are what is multiplied by.
struct TurnedConstant {
  std::vector<float> values;
  bool there = false;
};

TurnedConstant turned_constant(const Array* constant) {
  if (!constant || constant->carrier() != Carrier::kFloat || constant->rank() < 2) return {};
  const auto terms = static_cast<std::size_t>(constant->dim(constant->rank() - 2));
  const auto columns = static_cast<std::size_t>(constant->dim(constant->rank() - 1));
  TurnedConstant made{.values = {}, .there = true};
  made.values.reserve(constant->size());
  const float* const x = constant->values<float>().data();
  for (std::size_t at = 0; at < constant->size(); at += terms * columns) {
    const std::vector<float> one = turned(x + at, terms, columns);
    made.values.insert(made.values.end(), one.begin(), one.end());
  }
  return made;
}

/// NumPy's: axes before the last two broadcast; a vector is a row on the left and a column on the right.
Kernel mat_mul(const NodeFacts& facts) {
  return [weights = turned_constant(facts.constant(1))](Call& call) {
    const auto x = call.floats(0), w = call.floats(1);
    Ints a = call.in(0).shape(), b = call.in(1).shape();
    if (a.empty() || b.empty())
      call.fail("cannot take " + text_of(call.in(0)) + " and " + text_of(call.in(1)));
    const bool is_row = a.size() == 1, is_column = b.size() == 1;
    if (is_row) a.insert(a.begin(), 1);
    if (is_column) b.push_back(1);
    const std::int64_t rows = a[a.size() - 2], terms = a.back(), columns = b.back();
    if (b[b.size() - 2] != terms)
      call.fail("cannot multiply " + text_of(call.in(0)) + " by " + text_of(call.in(1)));
    const Ints a_outer(a.begin(), a.end() - 2), b_outer(b.begin(), b.end() - 2);
    const Ints* outers[] = {&a_outer, &b_outer};
    const Ints outer = broadcast_shape(call, outers);
    Ints shape = outer;
    if (!is_row) shape.push_back(rows);
    if (!is_column) shape.push_back(columns);
    float* const out = call.make(0, call.in(0).type(), shape).writable<float>().data();
    const auto m = static_cast<std::size_t>(rows), k = static_cast<std::size_t>(terms),
               n = static_cast<std::size_t>(columns);
    if (m * n == 0) return;
    call.spend({call.made(0).size(), k});
    exact::Products product{
        .rows = m, .columns = n, .terms = k, .x = x.data(), .x_stride = k, .w_stride = k, .y_row = n};
    std::vector<float> held;
    std::size_t holds = ~std::size_t{0};
    const auto weight_rows = [&](std::size_t at) {
      if (weights.there) return weights.values.data() + at * k * n;
      if (n == 1) return w.data() + at * k;
      if (holds != at) held = turned(w.data() + at * k * n, k, n);
      holds = at;
      return static_cast<const float*>(held.data());
    };
    if (b_outer.size() <= outer.size() &&
        product_of(b_outer, 0, b_outer.size()) == 1) {  // one matrix for all rows
      product.rows = m * static_cast<std::size_t>(product_of(outer, 0, outer.size()));
      if (product.rows == 0) return;
      product.w = weight_rows(0);
      product.y = out;
      return exact::multiply(product, call.threads());
    }
    for_broadcast(outer, std::array<const Ints*, 2>{&a_outer, &b_outer},
                  [&](std::size_t to, const Places& at, const Places& step, std::size_t count) {
                    for (std::size_t i = 0; i < count; ++i) {
                      product.x = x.data() + (at[0] + i * step[0]) * m * k;
                      product.w = weight_rows(at[1] + i * step[1]);
                      product.y = out + (to + i) * m * n;
                      exact::multiply(product, call.threads());
                    }
                  });
  };
}

/// alpha * A' * B' + beta * C, where A' is A or its transpose.
Kernel gemm(const NodeFacts& facts) {
  const float alpha = facts.float_or("alpha", 1), beta = facts.float_or("beta", 1);
  const bool turns_a = facts.int_or("transA", 0) != 0, turns_b = facts.int_or("transB", 0) != 0;
  return [=, weights = turns_b ? TurnedConstant{} : turned_constant(facts.constant(1))](Call& call) {
    const auto a = call.floats(0), b = call.floats(1);
    const Ints &p = call.in(0).shape(), &q = call.in(1).shape();
    if (p.size() != 2 || q.size() != 2 || p[turns_a ? 0 : 1] != q[turns_b ? 1 : 0])
      call.fail("cannot multiply " + text_of(call.in(0)) + " by " + text_of(call.in(1)));
    const Ints shape{p[turns_a ? 1 : 0], q[turns_b ? 0 : 1]};
    const auto m = static_cast<std::size_t>(shape[0]), n = static_cast<std::size_t>(shape[1]);
    const auto k = static_cast<std::size_t>(p[turns_a ? 0 : 1]);
    const ElementType type = call.in(0).type();
    float* const out = call.make(0, type, shape).writable<float>().data();
    call.spend({m, n, k});
    std::vector<float> x, w;
    if (turns_a) x = turned(a.data(), k, m);
    if (!turns_b && !weights.there) w = turned(b.data(), k, n);
    const float* const rows = turns_b ? b.data() : weights.there ? weights.values.data() : w.data();
    exact::multiply({.rows = m,
                     .columns = n,
                     .terms = k,
                     .x = turns_a ? x.data() : a.data(),
                     .x_stride = k,
                     .w = rows,
                     .w_stride = k,
                     .y = out,
                     .y_row = n},
                    call.threads());
    if (alpha != 1) std::for_each(out, out + m * n, [&](float& y) { y *= alpha; });
    if (!call.has(2) || beta == 0) return;
    const auto c = call.floats(2);
    const Ints added = call.in(2).shape();
    const Ints* shapes[] = {&shape, &added};
    if (broadcast_shape(call, shapes) != shape)
      call.fail("cannot add " + text_of(call.in(2)) + " to a product of shape " + graph::text_of(shape));
    for_broadcast(shape, std::array<const Ints*, 1>{&added},
                  [&](std::size_t to, const Places& at, const Places& step, std::size_t count) {
                    for (std::size_t i = 0; i < count; ++i) {
                      const float one = c[at[0] + i * step[0]];
                      out[to + i] += beta == 1 ? one : beta * one;
                    }
                  });
  };
}

}  // namespace

std::span<const OperatorRow> matrix_operators() {
  static constexpr OperatorRow kRows[] = {{"MatMul", mat_mul, Takes::kFloats},
                                          {"Gemm", gemm, Takes::kFloats}};
  return kRows;
}

}  // namespace crumb::runtime

// Products of matrices.
#include <algorithm>

#include "base/threads/parallel.h"
#include "runtime/exact/products.h"
#include "runtime/ops/broadcast.h"
#include "runtime/ops/families.h"
#include "runtime/ops/held_matrix.h"
#include "runtime/ops/movement.h"
#include "runtime/ops/scratch.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kPairWork = std::size_t{1} << 16;  // multiplications that are worth a thread

/// NumPy's: axes before the last two broadcast; a vector is a row on the left and a column on the right.
Kernel mat_mul(const NodeFacts& facts) {
  return [held = HeldMatrix::of(facts, 1, MatrixOrder::kTermsOutputs)](Call& call) {
    const auto x = call.floats(0), w = held ? std::span<const float>() : call.floats(1);
    Ints a = call.in(0).shape(), b = held ? held->shape() : call.in(1).shape();
    const auto cannot = [&] {
      call.fail("cannot multiply " + text_of(call.in(0)) + " by a matrix of shape " +
                graph::text_of(held ? held->shape() : call.in(1).shape()));
    };
    if (a.empty() || b.empty()) cannot();
    const bool is_row = a.size() == 1, is_column = b.size() == 1;
    if (is_row) a.insert(a.begin(), 1);
    if (is_column) b.push_back(1);
    const std::int64_t rows = a[a.size() - 2], terms = a.back(), columns = b.back();
    if (b[b.size() - 2] != terms) cannot();
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
    // Matrix `at` of the second operand, whose product is one of `side_by_side`.
    const auto multiply = [&](exact::Products one, std::size_t at, bool side_by_side) {
      const int threads = side_by_side ? 1 : call.threads();
      if (held) return held->multiply(one, at, threads, call.promise());
      one.w = w.data() + at * k * n;
      if (n == 1) return exact::multiply(one, threads);
      thread_local Scratch scratch;
      float* const rows_of_w = scratch.of(k * n);
      turn(one.w, k, n, rows_of_w);
      one.w = rows_of_w;
      exact::multiply(one, threads);
    };
    if (b_outer.size() <= outer.size() &&
        product_of(b_outer, 0, b_outer.size()) == 1) {  // one matrix for all rows
      product.rows = m * static_cast<std::size_t>(product_of(outer, 0, outer.size()));
      if (product.rows == 0) return;
      product.y = out;
      return multiply(product, 0, false);
    }
    struct Pair {
      std::size_t x, w;
    };
    std::vector<Pair> pairs;
    for_broadcast(outer, std::array<const Ints*, 2>{&a_outer, &b_outer},
                  [&](std::size_t, const Places& at, const Places& step, std::size_t count) {
                    for (std::size_t i = 0; i < count; ++i)
                      pairs.push_back({at[0] + i * step[0], at[1] + i * step[1]});
                  });
    const std::size_t work = std::max<std::size_t>(m * k * n, 1);
    const auto threads = static_cast<std::size_t>(call.threads() > 0 ? call.threads() : default_threads());
    const bool side_by_side = pairs.size() >= threads || work < kPairWork;
    const std::size_t piece = side_by_side ? std::max<std::size_t>(kPairWork / work, 1) : pairs.size();
    parallel_for(pairs.size(), piece, call.threads(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        exact::Products one = product;
        one.x = x.data() + pairs[i].x * m * k;
        one.y = out + i * m * n;
        multiply(one, pairs[i].w, side_by_side);
      }
    });
  };
}

/// alpha * A' * B' + beta * C, where A' is A or its transpose.
Kernel gemm(const NodeFacts& facts) {
  const float alpha = facts.float_or("alpha", 1), beta = facts.float_or("beta", 1);
  const bool turns_a = facts.int_or("transA", 0) != 0, turns_b = facts.int_or("transB", 0) != 0;
  const auto axes = turns_b ? MatrixOrder::kOutputsTerms : MatrixOrder::kTermsOutputs;
  return [=, held = HeldMatrix::of(facts, 1, axes)](Call& call) {
    const auto a = call.floats(0), b = held ? std::span<const float>() : call.floats(1);
    const Ints &p = call.in(0).shape(), &q = held ? held->shape() : call.in(1).shape();
    if (p.size() != 2 || q.size() != 2 || p[turns_a ? 0 : 1] != q[turns_b ? 1 : 0])
      call.fail("cannot multiply " + text_of(call.in(0)) + " by a matrix of shape " + graph::text_of(q));
    const Ints shape{p[turns_a ? 1 : 0], q[turns_b ? 0 : 1]};
    const auto m = static_cast<std::size_t>(shape[0]), n = static_cast<std::size_t>(shape[1]);
    const auto k = static_cast<std::size_t>(p[turns_a ? 0 : 1]);
    const ElementType type = call.in(0).type();
    float* const out = call.make(0, type, shape).writable<float>().data();
    call.spend({m, n, k});
    std::vector<float> x(turns_a ? a.size() : 0), w(held || turns_b ? 0 : b.size());
    if (turns_a) turn(a.data(), k, m, x.data());
    if (!w.empty()) turn(b.data(), k, n, w.data());
    const exact::Products product{.rows = m,
                                  .columns = n,
                                  .terms = k,
                                  .x = turns_a ? x.data() : a.data(),
                                  .x_stride = k,
                                  .w = turns_b ? b.data() : w.data(),
                                  .w_stride = k,
                                  .y = out,
                                  .y_row = n};
    if (held) {
      held->multiply(product, 0, call.threads(), call.promise());
    } else {
      exact::multiply(product, call.threads());
    }
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
  static constexpr OperatorRow kRows[] = {
      {"MatMul", mat_mul, Takes::kFloats, graph::kOnnxDomain, 1, true},
      {"Gemm", gemm, Takes::kFloats, graph::kOnnxDomain, 1, true},
  };
  return kRows;
}

}  // namespace crumb::runtime

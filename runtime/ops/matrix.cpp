// Products of matrices.
#include <algorithm>

#include "base/threads/parallel.h"
#include "graph/strided_index.h"
#include "runtime/exact/products.h"
#include "runtime/ops/broadcast.h"
#include "runtime/ops/families.h"
#include "runtime/ops/held_matrix.h"
#include "runtime/ops/movement.h"
#include "runtime/scratch.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kPairWork = std::size_t{1} << 16;  // multiplications that are worth a thread

/// One product of MatMul's: x [..., rows, terms] times w [..., terms, columns], axes before the last two
/// broadcast to `outer`. A vector is a row on the left and a column on the right.
struct MatMulShape {
  Ints x_outer, w_outer, outer, output;
  std::size_t rows, terms, columns;

  bool has_one_w() const {
    return w_outer.size() <= outer.size() && product_of(w_outer, 0, w_outer.size()) == 1;
  }
};

MatMulShape mat_mul_shape(const Call& call, Ints x, Ints w) {
  const auto cannot = [&, shape = w] {
    call.fail("cannot multiply " + text_of(call.in(0)) + " by a matrix of shape " + graph::text_of(shape));
  };
  if (x.empty() || w.empty()) cannot();
  const bool is_row = x.size() == 1, is_column = w.size() == 1;
  if (is_row) x.insert(x.begin(), 1);
  if (is_column) w.push_back(1);
  const std::int64_t rows = x[x.size() - 2], terms = x.back(), columns = w.back();
  if (w[w.size() - 2] != terms) cannot();
  MatMulShape made{.x_outer = {x.begin(), x.end() - 2},
                   .w_outer = {w.begin(), w.end() - 2},
                   .outer = {},
                   .output = {},
                   .rows = static_cast<std::size_t>(rows),
                   .terms = static_cast<std::size_t>(terms),
                   .columns = static_cast<std::size_t>(columns)};
  const Ints* outers[] = {&made.x_outer, &made.w_outer};
  made.output = made.outer = broadcast_shape(call, outers);
  if (!is_row) made.output.push_back(rows);
  if (!is_column) made.output.push_back(columns);
  return made;
}

/// The matrices that are MatMul's second operand: a constant that is kept as codes, or floats [terms,
/// columns] of each.
struct MatMulWeights {
  const HeldMatrix* held;
  std::span<const float> w;

  /// Takes matrix `at`.
  void multiply(exact::Products one, std::size_t at, int threads, Promise promise) const {
    if (held) return held->multiply(one, at, threads, promise);
    one.w = w.data() + at * one.terms * one.columns;
    if (one.columns == 1) return exact::multiply(one, threads);
    thread_local Scratch scratch;
    float* const rows_of_w = scratch.of(one.terms * one.columns);
    graph::transpose(one.w, one.terms, one.columns, rows_of_w);
    one.w = rows_of_w;
    exact::multiply(one, threads);
  }
};

/// A product for each matrix of the output, which several threads share, or all threads compute one after
/// another.
void multiply_pairs(const Call& call, const MatMulShape& shape, const MatMulWeights& weights,
                    const exact::Products& product) {
  struct Pair {
    std::size_t x, w;
  };
  std::vector<Pair> pairs;
  for_broadcast(shape.outer, std::array<const Ints*, 2>{&shape.x_outer, &shape.w_outer},
                [&](std::size_t, const Offsets& at, const Offsets& step, std::size_t count) {
                  for (std::size_t i = 0; i < count; ++i)
                    pairs.push_back({at[0] + i * step[0], at[1] + i * step[1]});
                });
  const std::size_t work = std::max<std::size_t>(shape.rows * shape.terms * shape.columns, 1);
  const auto threads = static_cast<std::size_t>(call.threads() > 0 ? call.threads() : default_threads());
  const bool side_by_side = pairs.size() >= threads || work < kPairWork;
  const std::size_t piece = side_by_side ? std::max<std::size_t>(kPairWork / work, 1) : pairs.size();
  parallel_for(pairs.size(), piece, call.threads(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      exact::Products one = product;
      one.x += pairs[i].x * shape.rows * shape.terms;
      one.y += i * shape.rows * shape.columns;
      weights.multiply(one, pairs[i].w, side_by_side ? 1 : call.threads(), call.promise());
    }
  });
}

Kernel mat_mul(const NodeFacts& facts) {
  return [held = HeldMatrix::of(facts, 1, MatrixOrder::kTermsOutputs)](Call& call) {
    const auto x = call.floats(0), w = held ? std::span<const float>() : call.floats(1);
    const MatMulShape shape =
        mat_mul_shape(call, call.in(0).shape(), held ? held->shape() : call.in(1).shape());
    float* const y = call.make(0, call.in(0).type(), shape.output).writable<float>().data();
    if (shape.rows * shape.columns == 0) return;
    call.spend({call.made(0).size(), shape.terms});
    const MatMulWeights weights{held.get(), w};
    exact::Products product{.rows = shape.rows,
                            .columns = shape.columns,
                            .terms = shape.terms,
                            .x = x.data(),
                            .x_stride = shape.terms,
                            .w_stride = shape.terms,
                            .y = y,
                            .y_row = shape.columns};
    if (!shape.has_one_w()) return multiply_pairs(call, shape, weights, product);
    product.rows *= static_cast<std::size_t>(product_of(shape.outer, 0, shape.outer.size()));
    if (product.rows > 0) weights.multiply(product, 0, call.threads(), call.promise());
  };
}

/// alpha * A' * B' + beta * C, where A' is A or its transpose.
Kernel gemm(const NodeFacts& facts) {
  const float alpha = facts.float_or("alpha", 1), beta = facts.float_or("beta", 1);
  const bool transposes_a = facts.int_or("transA", 0) != 0, transposes_b = facts.int_or("transB", 0) != 0;
  const auto axes = transposes_b ? MatrixOrder::kOutputsTerms : MatrixOrder::kTermsOutputs;
  return [=, held = HeldMatrix::of(facts, 1, axes)](Call& call) {
    const auto a = call.floats(0), b = held ? std::span<const float>() : call.floats(1);
    const Ints &p = call.in(0).shape(), &q = held ? held->shape() : call.in(1).shape();
    if (p.size() != 2 || q.size() != 2 || p[transposes_a ? 0 : 1] != q[transposes_b ? 1 : 0])
      call.fail("cannot multiply " + text_of(call.in(0)) + " by a matrix of shape " + graph::text_of(q));
    const Ints shape{p[transposes_a ? 1 : 0], q[transposes_b ? 0 : 1]};
    const auto m = static_cast<std::size_t>(shape[0]), n = static_cast<std::size_t>(shape[1]);
    const auto k = static_cast<std::size_t>(p[transposes_a ? 0 : 1]);
    const ElementType type = call.in(0).type();
    float* const out = call.make(0, type, shape).writable<float>().data();
    call.spend({m, n, k});
    std::vector<float> x(transposes_a ? a.size() : 0), w(held || transposes_b ? 0 : b.size());
    if (transposes_a) graph::transpose(a.data(), k, m, x.data());
    if (!w.empty()) graph::transpose(b.data(), k, n, w.data());
    const exact::Products product{.rows = m,
                                  .columns = n,
                                  .terms = k,
                                  .x = transposes_a ? x.data() : a.data(),
                                  .x_stride = k,
                                  .w = transposes_b ? b.data() : w.data(),
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
                  [&](std::size_t to, const Offsets& at, const Offsets& step, std::size_t count) {
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

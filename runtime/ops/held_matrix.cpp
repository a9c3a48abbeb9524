#include "runtime/ops/held_matrix.h"

#include <algorithm>
#include <numeric>

#include "base/threads/parallel.h"
#include "graph/sparse_products.h"
#include "graph/strided_index.h"
#include "runtime/exact/many_rows.h"
#include "runtime/scratch.h"

namespace crumb::runtime {
namespace {

// Floats that are decoded at a time, or a few rows more: of few rows of x what the first cache holds.
constexpr std::size_t kPanel = std::size_t{1} << 15, kSmallPanel = std::size_t{1} << 12;
constexpr std::size_t kFewRows = 8;
constexpr std::size_t kRowsDecoded = 16;                  // of a panel, at a time
constexpr std::size_t kSmallWork = std::size_t{1} << 16;  // multiplications that are worth a thread
constexpr std::size_t kTile = 12;                         // whole tiles of every kernel

/// Returns the rows of matrices that are stored so, [..., outputs, terms], while the node takes the
/// transpose.
std::optional<graph::Tensor> stored_rows(const graph::Tensor& matrices, MatrixOrder order) {
  if (order == MatrixOrder::kOutputsTerms || matrices.rank() < 2) return std::nullopt;
  Ints perm(matrices.shape().size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm.back(), perm[perm.size() - 2]);
  return graph::transposed_as_stored(matrices, perm);
}

}  // namespace

bool HeldMatrix::keeps_codes(const graph::QuantizedConstant& constant, MatrixOrder order) {
  const std::size_t rank = constant.axes.size(), stack = constant.tensor->encoding.stack_axes;
  const std::size_t output = stack + (order == MatrixOrder::kTermsOutputs ? 1 : 0);
  return rank == stack + 2 && constant.axes == graph::tensor_axes(rank, {output, stack});
}

std::shared_ptr<const HeldMatrix> HeldMatrix::of(const NodeFacts& facts, std::size_t input,
                                                 MatrixOrder axes) {
  const Array* const values = facts.constant(input);
  if (!facts.packed && !facts.rows && !facts.sparse && !values) return nullptr;
  std::shared_ptr<HeldMatrix> made(new HeldMatrix);
  made->shape_ = facts.packed   ? facts.packed->shape()
                 : facts.rows   ? facts.rows->shape()
                 : facts.sparse ? Ints{facts.sparse->rows, facts.sparse->columns}
                                : values->shape();
  if (made->shape_.empty())
    facts.fail("input " + std::to_string(input) + ": expected a matrix, found a number");
  Ints matrix = made->shape_;
  if (matrix.size() > 2) matrix.erase(matrix.begin(), matrix.end() - 2);
  if (matrix.size() == 1)
    matrix.insert(axes == MatrixOrder::kTermsOutputs ? matrix.end() : matrix.begin(), 1);
  const bool outputs_last = axes == MatrixOrder::kTermsOutputs;
  made->outputs_ = static_cast<std::size_t>(matrix[outputs_last ? 1 : 0]);
  made->terms_ = static_cast<std::size_t>(matrix[outputs_last ? 0 : 1]);
  if (facts.sparse) {
    made->hold(*facts.sparse, axes);
  } else if (values) {
    if (values->carrier() != Carrier::kFloat)
      facts.fail("cannot take " + text_of(*values) + " as input " + std::to_string(input));
    made->hold(*values, axes);
  } else if (facts.packed && keeps_codes(*facts.packed, axes)) {
    made->hold(facts.packed->tensor);
  } else if (facts.rows && facts.rows->packed_rows() && keeps_rows(*facts.rows->packed_rows(), axes)) {
    made->packed_ = facts.rows->packed_rows()->source;
  } else if (const auto stored = facts.rows ? stored_rows(*facts.rows, axes) : std::nullopt) {
    made->rows_ = Array::of(*stored);
  } else {
    made->hold(Array::of(facts.packed ? facts.packed->value() : *facts.rows), axes);
  }
  return made;
}

void HeldMatrix::hold(const std::shared_ptr<const QuantizedTensor>& codes) {
  packed_ = rows_of(codes);
  coded_ = exact::CodedMatrix::of(codes);
  if (codes->layout.matrices == 1) fast_ = FastMatrix::of(codes);
}

void HeldMatrix::hold(const Array& values, MatrixOrder axes) {
  rows_ = values;
  if (axes == MatrixOrder::kOutputsTerms || outputs_ == 1) return;
  rows_ = Array(values.type(), values.shape());
  const float* const from = values.values<float>().data();
  float* const to = rows_.writable<float>().data();
  for (std::size_t at = 0; at < values.size(); at += terms_ * outputs_)
    graph::transpose(from + at, terms_, outputs_, to + at);
}

void HeldMatrix::hold(const graph::SparseMatrix& sparse, MatrixOrder axes) {
  std::vector<exact::SparseRows::Placed> placed;
  for (std::size_t i = 0; i < sparse.places.size(); ++i) {
    const auto row = static_cast<std::size_t>(sparse.places[i] / sparse.columns),
               column = static_cast<std::size_t>(sparse.places[i] % sparse.columns);
    placed.push_back(axes == MatrixOrder::kTermsOutputs
                         ? exact::SparseRows::Placed{column, row, sparse.numbers[i]}
                         : exact::SparseRows::Placed{row, column, sparse.numbers[i]});
  }
  sparse_.emplace(outputs_, terms_, placed);
}

void HeldMatrix::multiply(exact::Products product, std::size_t at, int threads, Promise promise) const {
  product.columns = outputs_;
  product.terms = product.w_stride = terms_;
  if (fast_ && promise == Promise::kFast && fast_->multiply(product, threads)) return;
  if (coded_ && coded_->is_for(product.rows)) return coded_->multiply(product, at * outputs_, threads);
  if (packed_) return multiply_packed(product, at, threads);
  if (sparse_) return sparse_->multiply(product, threads);
  product.w = rows_.values<float>().data() + at * outputs_ * terms_;
  exact::multiply(product, threads);
}

void HeldMatrix::multiply_packed(const exact::Products& product, std::size_t at, int threads) const {
  if (exact::is_faster_for_rows(product) && kRowsDecoded % packed_->rows_together() == 0) {
    const auto write = [&](std::size_t first, std::size_t count, float* to, std::size_t stride) {
      thread_local Scratch scratch;
      float* const rows = scratch.of(kRowsDecoded * terms_);
      for (std::size_t i = 0; i < count; i += kRowsDecoded) {
        const std::size_t some = std::min(kRowsDecoded, count - i);
        packed_->decode(at * outputs_ + first + i, {rows, some * terms_});
        exact::rows_to_terms(rows, terms_, some, terms_, to + i, stride);
      }
    };
    return exact::multiply_many(product, write, threads);
  }
  // Whole tiles of the kernels, and whole blocks of what is decoded.
  const std::size_t whole = std::lcm(kTile, static_cast<std::size_t>(packed_->rows_together()));
  const auto in_tiles = [whole](std::size_t rows) { return (rows + whole - 1) / whole * whole; };
  const std::size_t terms = std::max<std::size_t>(terms_, 1);
  const std::size_t panel_rows = in_tiles((product.rows <= kFewRows ? kSmallPanel : kPanel) / terms + 1);
  const std::size_t least = in_tiles(kSmallWork / std::max<std::size_t>(product.rows * terms, 1) + 1);
  const auto workers = static_cast<std::size_t>(threads > 0 ? threads : default_threads());
  const std::size_t piece = std::max(std::min(panel_rows, in_tiles(outputs_ / workers + 1)), least);
  parallel_for(outputs_, piece, threads, [&](std::size_t begin, std::size_t end) {
    thread_local Scratch scratch;
    float* const panel = scratch.of(panel_rows * terms_);
    for (std::size_t first = begin; first < end; first += panel_rows) {
      exact::Products part = product;
      part.columns = std::min(panel_rows, end - first);
      packed_->decode(at * outputs_ + first, {panel, part.columns * terms_});
      part.w = panel;
      part.y += first * product.y_column;
      exact::multiply(part, 1);
    }
  });
}

}  // namespace crumb::runtime

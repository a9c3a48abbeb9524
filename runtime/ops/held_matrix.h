// The constant operand of a product, by its rows: one for each output. Packed weights stay packed; what they
// stand for is decoded a few rows at a time, while a batch passes over them. Products have the same bits
// either way (exact/products.h); those of codes by the promise `fast` have others (fast/fast_matrix.h). A
// matrix of few numbers among zeros is those numbers.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "quant/row_source.h"
#include "runtime/exact/coded_matrix.h"
#include "runtime/exact/products.h"
#include "runtime/exact/sparse_rows.h"
#include "runtime/fast/fast_matrix.h"
#include "runtime/operator.h"

namespace crumb::runtime {

/// How the last two axes of a matrix lie.
enum class MatrixOrder : std::uint8_t { kTermsOutputs, kOutputsTerms };

class HeldMatrix {
 public:
  /// Input `input` of the node, which the operator's row holds: null where it is computed. Throws Error where
  /// it is no matrix of floats; a vector is a matrix of one output.
  static std::shared_ptr<const HeldMatrix> of(const NodeFacts& facts, std::size_t input, MatrixOrder axes);

  /// Whether codes lie as its products take them, matrices [outputs, terms], one or a stack; else they become
  /// floats.
  static bool keeps_codes(const graph::QuantizedConstant& constant, MatrixOrder order);
  /// The same of packed weights without codes.
  static bool keeps_rows(const graph::PackedRows& rows, MatrixOrder order) {
    return rows.transposed == (order == MatrixOrder::kTermsOutputs);
  }

  const Ints& shape() const { return shape_; }  ///< of the constant
  std::size_t outputs() const { return outputs_; }
  std::size_t terms() const { return terms_; }
  bool is_packed() const { return packed_ != nullptr; }

  /// Writes the floats of matrix `at`, [outputs, terms]. Precondition: is_packed().
  void decode(std::size_t at, std::span<float> to) const {
    packed_->decode(at * outputs_, to.first(outputs_ * terms_));
  }

  /// By matrix `at` of the axes before the last two, as `promise` says. Sets what a product says of w;
  /// columns and terms are the matrix's.
  void multiply(exact::Products product, std::size_t at, int threads,
                Promise promise = Promise::kExact) const;

 private:
  HeldMatrix() = default;
  void hold(const std::shared_ptr<const QuantizedTensor>& codes);
  void hold(const Array& values, MatrixOrder axes);
  void hold(const graph::SparseMatrix& sparse, MatrixOrder axes);
  void multiply_packed(const exact::Products& product, std::size_t at, int threads) const;

  Ints shape_;
  std::size_t outputs_ = 0, terms_ = 0;
  Array rows_;                               ///< floats; undefined where they stay packed
  std::shared_ptr<const RowSource> packed_;  ///< null where they do not
  std::optional<exact::SparseRows> sparse_;
  std::shared_ptr<const exact::CodedMatrix> coded_;  ///< of codes that few rows of x multiply as they are
  std::shared_ptr<const FastMatrix> fast_;           ///< of codes; null where their values are not for it
};

/// Whether Gather decodes rows of these codes when they are asked for (ops/indexing.cpp).
bool gathers_codes(const graph::Node& node, const graph::QuantizedConstant& constant);
/// The same of packed weights without codes.
bool gathers_rows(const graph::Node& node, const graph::PackedRows& rows);

}  // namespace crumb::runtime

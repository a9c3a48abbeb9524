// Reads a constant's elements with the output axis first, as quantizers need them, and writes them back,
// without a second copy of the constant.
//
// Operators have the output axis elsewhere (MatMul: last). With the axes before and behind it merged, a
// constant is [before, outputs, behind], and its elements are given as [outputs, before, behind]. The
// matrices of a stack follow each other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/matrix_axes.h"
#include "quant/value_stream.h"

namespace crumb::graph {

struct OutputOrder {
  std::uint64_t matrices = 1;
  std::uint64_t before = 1, outputs = 1, behind = 1;  ///< of one matrix

  /// Precondition: stack_axes <= output_axis < shape.size().
  OutputOrder(std::span<const std::int64_t> shape, MatrixAxes axes);

  std::uint64_t row() const { return before * behind; }  ///< elements of one output
  std::uint64_t matrix() const { return outputs * row(); }
  std::uint64_t size() const { return matrices * matrix(); }

  /// Copies elements [first, first + to.size()) of the constant `from`, in output-first order, to `to`.
  void take(std::span<const float> from, std::uint64_t first, std::span<float> to) const;
  /// The inverse: `from` has those elements, `to` is the whole constant.
  void put(std::span<const float> from, std::uint64_t first, std::span<float> to) const;

 private:
  template <class Move>
  void walk(std::uint64_t first, std::uint64_t count, const Move& move) const;
  template <class Move>
  void walk_matrix(std::uint64_t first, std::uint64_t count, const Move& move) const;
};

/// Streams the elements of a constant in memory, in output-first order, piece by piece.
class OutputFirst final : public ValueStream {
 public:
  /// Precondition: the values outlive this object.
  OutputFirst(std::span<const float> values, const OutputOrder& order) : values_(values), order_(order) {}

  std::span<const float> next(std::uint64_t count) override;
  void rewind() override { at_ = 0; }

 private:
  std::span<const float> values_;
  OutputOrder order_;
  std::uint64_t at_ = 0;
  std::vector<float> piece_;
};

}  // namespace crumb::graph

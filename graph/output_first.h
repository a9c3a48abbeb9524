// A constant's elements with the output axis first, as quantizers have them, and back, without a second copy
// of the constant.
//
// Operators want the output axis elsewhere (MatMul: last). With the axes before and behind it taken together
// a constant is [before, outputs, behind], and its elements are given as [outputs, before, behind]; of a stack each matrix
// by itself, one behind the other.
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

  std::uint64_t row() const { return before * behind; }  ///< elements of an output
  std::uint64_t matrix() const { return outputs * row(); }
  std::uint64_t size() const { return matrices * matrix(); }

  /// Elements [first, first + to.size()) of the constant `from`, outputs first.
  void take(std::span<const float> from, std::uint64_t first, std::span<float> to) const;
  /// The way back: `from` are those elements, `to` is the whole constant.
  void put(std::span<const float> from, std::uint64_t first, std::span<float> to) const;

 private:
  template <class Move>
  void walk(std::uint64_t first, std::uint64_t count, const Move& move) const;
  template <class Move>
  void walk_matrix(std::uint64_t first, std::uint64_t count, const Move& move) const;
};

/// The elements of a constant that lies in memory, outputs first, a piece at a time.
class OutputFirst final : public ValueStream {
 public:
  /// The values must outlive it.
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

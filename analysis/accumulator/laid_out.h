// Numbers with a shape, row-major, and changes of their layout. Internal to analysis/accumulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "graph/strided_index.h"

namespace crumb::analysis {

using Sizes = std::vector<std::int64_t>;

/// Precondition: no size is negative, and the product fits.
std::size_t elements_of(std::span<const std::int64_t> shape);

/// The shape that both broadcast to. Throws Error where they do not.
Sizes broadcast_shape(const Sizes& a, const Sizes& b);

template <class T>
struct LaidOut {
  Sizes shape;
  std::vector<T> values;

  std::size_t rank() const { return shape.size(); }
  /// The size of an axis counted from the end: 1 for the last one, 2 for the one before.
  std::int64_t from_end(std::size_t axis) const { return shape[rank() - axis]; }
};

using Integers = LaidOut<std::int64_t>;

template <class T>
LaidOut<T> permuted(const LaidOut<T>& x, std::span<const std::int64_t> perm) {
  return {graph::permuted_shape(x.shape, perm), graph::permuted(x.values, x.shape, perm)};
}

/// With this axis moved to another index.
template <class T>
LaidOut<T> moved(const LaidOut<T>& x, std::size_t from, std::size_t to) {
  Sizes order;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (i != from) order.push_back(static_cast<std::int64_t>(i));
  }
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), static_cast<std::int64_t>(from));
  return permuted(x, order);
}

/// Transposes every matrix. Precondition: two axes or more.
template <class T>
LaidOut<T> transposed(const LaidOut<T>& x) {
  return moved(x, x.rank() - 2, x.rank() - 1);
}

/// Repeats elements along axes of size 1, and along new axes before them. Throws Error where the numbers do
/// not broadcast to the shape.
template <class T>
LaidOut<T> spread(const LaidOut<T>& x, const Sizes& shape) {
  auto index = graph::StridedIndex::broadcast(shape, x.shape);
  if (!index)
    throw Error("numbers of shape " + graph::text_of(x.shape) + " do not fit " + graph::text_of(shape));
  LaidOut<T> made{shape, {}};
  made.values.reserve(elements_of(shape));
  for (std::size_t i = elements_of(shape); i-- > 0; index->next())
    made.values.push_back(x.values[index->at()]);
  return made;
}

/// Without the axis, counted from the end, from 1. Precondition: its size is 1.
template <class T>
LaidOut<T> without_axis(LaidOut<T> x, std::size_t from_end) {
  x.shape.erase(x.shape.end() - static_cast<std::ptrdiff_t>(from_end));
  return x;
}

/// 0, 1, 2, ... with this shape.
Integers counted(Sizes shape);

}  // namespace crumb::analysis

// Helpers of the operators that move elements without computing with them.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "libtorch/execute/operator.h"

namespace crumb::libtorch {

using Ints = std::vector<std::int64_t>;

/// A result whose elements are input 0's.
inline Outputs moved(const Call& call, at::Tensor result) { return one(std::move(result), call.type(0)); }

/// The axes from the front, each named once; throws Error where one is outside or named twice.
inline Ints usual_axes(const Call& call, Ints axes, std::int64_t rank) {
  std::vector<bool> seen(static_cast<std::size_t>(rank));
  for (std::int64_t& axis : axes) {
    axis = usual_axis(call, axis, rank);
    if (seen[static_cast<std::size_t>(axis)]) call.fail("axis " + std::to_string(axis) + " is named twice");
    seen[static_cast<std::size_t>(axis)] = true;
  }
  return axes;
}

/// 0, 1, ..., count - 1.
inline Ints first_axes(std::int64_t count) {
  Ints axes(static_cast<std::size_t>(count));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

/// Throws Error unless input i has that rank.
inline void expect_rank(const Call& call, std::size_t i, std::int64_t rank) {
  if (call.tensor(i).dim() != rank) {
    call.fail("input " + std::to_string(i) + ": expected rank " + std::to_string(rank) + ", found " +
              text_of(call.in(i)));
  }
}

/// Throws Error unless input i has at least that rank.
inline void expect_least_rank(const Call& call, std::size_t i, std::int64_t rank) {
  if (call.tensor(i).dim() < rank) {
    call.fail("input " + std::to_string(i) + ": expected rank " + std::to_string(rank) + " or more, found " +
              text_of(call.in(i)));
  }
}

/// Throws Error unless the list has as many elements as expected.
inline void expect_length(const Call& call, const std::string& what, std::size_t found,
                          std::int64_t expected) {
  if (static_cast<std::int64_t>(found) != expected) {
    call.fail(what + ": expected " + std::to_string(expected) + " elements, found " + std::to_string(found));
  }
}

/// Indices into `size` elements: int64, negative ones counted from the back; throws Error where one is
/// outside.
at::Tensor usual_indices(const Call& call, const at::Tensor& indices, std::int64_t size);

/// Places in row-major order: the last axis of `indices` holds one index for each of `sizes`, checked as
/// above.
at::Tensor flat_places(const Call& call, const at::Tensor& indices, at::IntArrayRef sizes);

}  // namespace crumb::libtorch

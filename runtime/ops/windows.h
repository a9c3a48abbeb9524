// The windows of a convolution: which element of the input each tap of the kernel takes, for any position of
// the output, and how they are written for exact/term_products.h, whose terms are runs of positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/operator.h"

namespace crumb::runtime {

/// Sizes by spatial axis, of which there is one at least. Padding is no element; it counts as zeros.
struct Windows {
  Ints kernel, strides, dilations, begin, input, output;

  std::size_t axes() const { return kernel.size(); }
  std::size_t taps() const;
  std::size_t elements() const;   ///< of the input
  std::size_t positions() const;  ///< of the output

  /// The index on one axis; -1 where there is no element.
  std::int64_t place(std::size_t axis, std::int64_t out, std::int64_t k) const;

  /// The same windows with fewer axes: one where each is the element at its own position; else without the
  /// axes that have one element, one position and one tap.
  Windows on_fewer_axes() const;

  /// The windows of outputs [first, first + count) of axis 0.
  Windows part(std::int64_t first, std::int64_t count) const;

 private:
  bool are_single_elements() const;
};

/// Writes the windows of outputs [first, end), in row-major order, of `channels` channels:
/// to[offsets[t] + i] is term t of window first + i. Terms are channels, then taps.
void lay_out(const Windows& windows, const float* x, std::size_t channels, std::size_t first, std::size_t end,
             const std::size_t* offsets, float* to);

}  // namespace crumb::runtime

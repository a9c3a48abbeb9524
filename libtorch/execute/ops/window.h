// Windows that slide over the spatial axes of [N, C, D1, ..., Dn]: what convolutions and poolings have in common.
#pragma once

#include <cstdint>
#include <vector>

#include "libtorch/execute/operator.h"

namespace crumb::libtorch {

struct Window {
  std::vector<std::int64_t> kernel, strides, dilations;
  std::vector<std::int64_t> begin, end;  ///< padding on the two sides of each axis
  std::vector<std::int64_t> input, output;

  std::size_t axes() const { return kernel.size(); }
  /// How far a window reaches on an axis.
  std::int64_t extent(std::size_t axis) const { return (kernel[axis] - 1) * dilations[axis] + 1; }
  /// Padding behind the last element that the last window needs; less than `end` where nothing looks at the rest,
  /// more where rounding up (ceil_mode) lets the last window overhang.
  std::int64_t reached_end(std::size_t axis) const;
  /// The padding is the same on both sides, and the sizes are those that rounding down gives.
  bool is_plain() const;
};

/// The windows of a node over an input, by its attributes strides, dilations, pads, auto_pad and, where
/// `may_round_up`, ceil_mode. Throws Error where they do not fit the input.
Window window_of(const Call& call, const at::Tensor& input, std::vector<std::int64_t> kernel,
                 bool may_round_up = false);

/// An attribute with one positive (or not negative) integer for each of `count`, or `otherwise` for each.
std::vector<std::int64_t> sizes_attribute(const Call& call, const char* name, std::size_t count,
                                          std::int64_t otherwise);

/// Spatial axes of an input of rank 3 and more; throws Error below.
std::size_t spatial_axes(const Call& call, const at::Tensor& input);

/// What a ConvTranspose keeps of its full result: `output` elements from `begin` on, for each axis.
struct KeptResult {
  std::vector<std::int64_t> full, begin, output;
  std::vector<std::int64_t> extra;  ///< output_padding
};

/// By its attributes; throws Error where these do not fit the input, and where nothing would be left.
KeptResult kept_of(const Call& call, const at::Tensor& input, const std::vector<std::int64_t>& kernel,
                   const std::vector<std::int64_t>& strides, const std::vector<std::int64_t>& dilations);

/// The input with `begin` and `end` elements of `value` around each spatial axis; negative ones cut off.
at::Tensor padded(const at::Tensor& input, const std::vector<std::int64_t>& begin,
                  const std::vector<std::int64_t>& end, const at::Scalar& value);

}  // namespace crumb::libtorch

// Windows that slide over the spatial axes of [N, C, D1, ..., Dn]: what convolutions and poolings have in common, by their
// attributes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

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

/// The windows of a node over spatial axes of these sizes, by its attributes strides, dilations, pads, auto_pad and, where
/// `may_round_up`, ceil_mode. Throws Error, which names the node, where they do not fit.
Window window_of(const Node& node, std::span<const std::int64_t> input, std::vector<std::int64_t> kernel,
                 bool may_round_up = false);

/// What a ConvTranspose keeps of its full result: `output` elements from `begin` on, for each axis.
struct KeptResult {
  std::vector<std::int64_t> full, begin, output;
  std::vector<std::int64_t> extra;  ///< output_padding
};

/// By its attributes; throws Error, which names the node, where these do not fit the input, and where nothing would be
/// left.
KeptResult kept_of(const Node& node, std::span<const std::int64_t> input,
                   std::span<const std::int64_t> kernel, std::span<const std::int64_t> strides,
                   std::span<const std::int64_t> dilations);

/// An attribute with one positive (or not negative) integer for each of `count`, or `otherwise` for each.
std::vector<std::int64_t> sizes_attribute(const Node& node, const std::string& name, std::size_t count,
                                          std::int64_t otherwise);

}  // namespace crumb::graph

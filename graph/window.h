// Windows that slide over the spatial axes of [N, C, D1, ..., Dn], as the attributes of convolutions and
// poolings describe them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

struct Window {
  std::vector<std::int64_t> kernel, strides, dilations;
  std::vector<std::int64_t> begin, end;  ///< padding on both sides of each axis
  std::vector<std::int64_t> input, output;

  std::size_t axes() const { return kernel.size(); }
  /// Returns how many elements of an axis a window spans.
  std::int64_t extent(std::size_t axis) const { return (kernel[axis] - 1) * dilations[axis] + 1; }
  /// Returns the padding that the last window needs behind the last element: less than `end` where no window
  /// covers the rest, more where rounding up (ceil_mode) lets the last window overhang.
  std::int64_t reached_end(std::size_t axis) const;
  /// Whether the padding is the same on both sides, and the output sizes are those of rounding down.
  bool is_plain() const;
};

/// Returns a node's windows over spatial axes of the sizes `input`, by the attributes strides, dilations,
/// pads, auto_pad and, where `may_round_up`, ceil_mode. Throws Error, which names the node, where they do not
/// fit.
Window window_of(const Node& node, std::span<const std::int64_t> input, std::vector<std::int64_t> kernel,
                 bool may_round_up = false);

/// What a ConvTranspose keeps of its full result: `output` elements from `begin` on, on each axis.
struct KeptResult {
  std::vector<std::int64_t> full, begin, output;
  std::vector<std::int64_t> extra;  ///< output_padding
};

/// Reads it from the node's attributes. Throws Error, which names the node, where these do not fit the input,
/// or where the result would be empty.
KeptResult kept_of(const Node& node, std::span<const std::int64_t> input,
                   std::span<const std::int64_t> kernel, std::span<const std::int64_t> strides,
                   std::span<const std::int64_t> dilations);

/// Returns an attribute with `count` positive (or nonnegative) integers, or `count` times `otherwise` where
/// the node has none.
std::vector<std::int64_t> sizes_attribute(const Node& node, const std::string& name, std::size_t count,
                                          std::int64_t otherwise);

}  // namespace crumb::graph

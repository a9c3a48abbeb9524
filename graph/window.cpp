#include "graph/window.h"

#include <algorithm>

namespace crumb::graph {
namespace {

using Sizes = std::vector<std::int64_t>;

/// Products and sums of two of these stay within 64 bits.
constexpr std::int64_t kMostSize = std::int64_t{1} << 31;

std::int64_t divided_down(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

[[noreturn]] void fail(const Node& node, const std::string& text) {
  throw Error(text_of(node) + ": " + text);
}

/// Returns auto_pad, one of four words or "NOTSET".
std::string automatic_padding(const Node& node) {
  std::string automatic = node.text_or("auto_pad", "NOTSET");
  if (automatic.empty()) automatic = "NOTSET";
  if (automatic != "NOTSET" && automatic != "VALID" && automatic != "SAME_UPPER" &&
      automatic != "SAME_LOWER") {
    fail(node, "auto_pad is \"" + automatic + "\", expected NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  }
  return automatic;
}

}  // namespace

std::int64_t Window::reached_end(std::size_t axis) const {
  const std::int64_t needed = (output[axis] - 1) * strides[axis] + extent(axis);
  return std::max<std::int64_t>(0, needed - input[axis] - begin[axis]);
}

bool Window::is_plain() const {
  for (std::size_t i = 0; i < axes(); ++i) {
    const std::int64_t room = input[i] + begin[i] + end[i] - extent(i);
    if (begin[i] != end[i] || output[i] != divided_down(room, strides[i]) + 1) return false;
  }
  return true;
}

Sizes sizes_attribute(const Node& node, const std::string& name, std::size_t count, std::int64_t otherwise) {
  Sizes values = node.ints_or(name, {});
  if (values.empty()) return Sizes(count, otherwise);
  if (values.size() != count) {
    fail(node,
         name + " has " + std::to_string(values.size()) + " entries, expected " + std::to_string(count));
  }
  for (const std::int64_t value : values) {
    if (value < std::min<std::int64_t>(otherwise, 1) || value > kMostSize)
      fail(node, name + " holds " + std::to_string(value));
  }
  return values;
}

Window window_of(const Node& node, std::span<const std::int64_t> input, Sizes kernel, bool may_round_up) {
  const std::size_t axes = input.size();
  if (kernel.size() != axes) {
    fail(node,
         "the kernel has " + std::to_string(kernel.size()) + " axes, the input " + std::to_string(axes));
  }
  Window window;
  window.kernel = std::move(kernel);
  window.strides = sizes_attribute(node, "strides", axes, 1);
  window.dilations = sizes_attribute(node, "dilations", axes, 1);
  const Sizes pads = sizes_attribute(node, "pads", 2 * axes, 0);
  window.begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes));
  window.end.assign(pads.begin() + static_cast<std::ptrdiff_t>(axes), pads.end());
  const std::string automatic = automatic_padding(node);
  const bool same = automatic.starts_with("SAME");
  const bool up = may_round_up && node.int_or("ceil_mode", 0) != 0;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t size = input[i], stride = window.strides[i];
    if (window.kernel[i] < 1 || window.kernel[i] > kMostSize || size > kMostSize) {
      fail(node,
           "a kernel of " + std::to_string(window.kernel[i]) + " over " + std::to_string(size) + " elements");
    }
    window.input.push_back(size);
    const std::int64_t extent = window.extent(i);
    std::int64_t output = 0;
    if (same) {
      output = (size + stride - 1) / stride;
      const std::int64_t total = std::max<std::int64_t>(0, (output - 1) * stride + extent - size);
      const std::int64_t less = total / 2;
      window.begin[i] = automatic == "SAME_UPPER" ? less : total - less;
      window.end[i] = total - window.begin[i];
    } else {
      if (automatic == "VALID") window.begin[i] = window.end[i] = 0;
      const std::int64_t room = size + window.begin[i] + window.end[i] - extent;
      output = divided_down(up ? room + stride - 1 : room, stride) + 1;
      // A window that would start behind the input and the padding before it looks at nothing.
      if (up && (output - 1) * stride >= size + window.begin[i]) --output;
    }
    if (output < 1) {
      fail(node, "a window of " + std::to_string(extent) + " elements does not fit into axis " +
                     std::to_string(i + 2) + " of the input, " + std::to_string(size) + " elements and " +
                     std::to_string(window.begin[i] + window.end[i]) + " of padding");
    }
    window.output.push_back(output);
  }
  return window;
}

KeptResult kept_of(const Node& node, std::span<const std::int64_t> input,
                   std::span<const std::int64_t> kernel, std::span<const std::int64_t> strides,
                   std::span<const std::int64_t> dilations) {
  const std::size_t axes = kernel.size();
  const Sizes pads = sizes_attribute(node, "pads", 2 * axes, 0);
  const std::string automatic = automatic_padding(node);
  Sizes requested = node.ints_or("output_shape", {});
  if (requested.size() == axes + 2) requested.erase(requested.begin(), requested.begin() + 2);
  if (!requested.empty() && requested.size() != axes) {
    fail(node, "output_shape has " + std::to_string(requested.size()) + " entries, expected " +
                   std::to_string(axes));
  }
  KeptResult kept;
  kept.extra = sizes_attribute(node, "output_padding", axes, 0);
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t size = input[i];
    const std::int64_t full = strides[i] * (size - 1) + (kernel[i] - 1) * dilations[i] + 1;
    std::int64_t begin = automatic == "VALID" ? 0 : pads[i];
    std::int64_t output = full + kept.extra[i] - (automatic == "VALID" ? 0 : pads[i] + pads[axes + i]);
    if (!requested.empty() || automatic.starts_with("SAME")) {
      output = requested.empty() ? size * strides[i] : requested[i];
      const std::int64_t total = std::max<std::int64_t>(0, full + kept.extra[i] - output);
      begin = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    }
    if (output < 0) fail(node, "the output would have " + std::to_string(output) + " elements on an axis");
    kept.full.push_back(full);
    kept.begin.push_back(begin);
    kept.output.push_back(output);
  }
  return kept;
}

}  // namespace crumb::graph

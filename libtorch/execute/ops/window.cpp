#include "libtorch/execute/ops/window.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace crumb::libtorch {
namespace {

/// Products and sums of two of these stay within 64 bits.
constexpr std::int64_t kMostSize = std::int64_t{1} << 31;

std::int64_t divided_down(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

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

std::size_t spatial_axes(const Call& call, const at::Tensor& input) {
  if (input.dim() < 3) {
    call.fail("expected an input of 3 or more axes (batch, channels, sizes), found " +
              std::to_string(input.dim()));
  }
  return static_cast<std::size_t>(input.dim() - 2);
}

std::vector<std::int64_t> sizes_attribute(const Call& call, const char* name, std::size_t count,
                                          std::int64_t otherwise) {
  auto values = call.ints_attribute(name).value_or(std::vector<std::int64_t>{});
  if (values.empty()) return std::vector<std::int64_t>(count, otherwise);
  if (values.size() != count) {
    call.fail(std::string(name) + " has " + std::to_string(values.size()) + " entries, expected " +
              std::to_string(count));
  }
  for (const std::int64_t value : values) {
    if (value < std::min<std::int64_t>(otherwise, 1) || value > kMostSize) {
      call.fail(std::string(name) + " holds " + std::to_string(value));
    }
  }
  return values;
}

Window window_of(const Call& call, const at::Tensor& input, std::vector<std::int64_t> kernel,
                 bool may_round_up) {
  const std::size_t axes = spatial_axes(call, input);
  if (kernel.size() != axes) {
    call.fail("the kernel has " + std::to_string(kernel.size()) + " axes, the input " + std::to_string(axes));
  }
  Window window;
  window.kernel = std::move(kernel);
  window.strides = sizes_attribute(call, "strides", axes, 1);
  window.dilations = sizes_attribute(call, "dilations", axes, 1);
  const std::vector<std::int64_t> pads = sizes_attribute(call, "pads", 2 * axes, 0);
  window.begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes));
  window.end.assign(pads.begin() + static_cast<std::ptrdiff_t>(axes), pads.end());
  const std::string automatic = call.text_or("auto_pad", "NOTSET");
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  if (!same && automatic != "NOTSET" && automatic != "VALID" && !automatic.empty()) {
    call.fail("auto_pad is \"" + automatic + "\", expected NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  }
  const bool up = may_round_up && call.int_or("ceil_mode", 0) != 0;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t size = input.size(static_cast<std::int64_t>(i) + 2);
    const std::int64_t stride = window.strides[i];
    if (window.kernel[i] < 1 || window.kernel[i] > kMostSize || size > kMostSize) {
      call.fail("a kernel of " + std::to_string(window.kernel[i]) + " over " + std::to_string(size) +
                " elements");
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
      call.fail("a window of " + std::to_string(extent) + " elements does not fit into axis " +
                std::to_string(i + 2) + " of the input, " + std::to_string(size) + " elements and " +
                std::to_string(window.begin[i] + window.end[i]) + " of padding");
    }
    window.output.push_back(output);
  }
  return window;
}

at::Tensor padded(const at::Tensor& input, const std::vector<std::int64_t>& begin,
                  const std::vector<std::int64_t>& end, const at::Scalar& value) {
  std::vector<std::int64_t> pads;  // the last axis first
  bool any = false;
  for (std::size_t i = begin.size(); i-- > 0;) {
    pads.push_back(begin[i]);
    pads.push_back(end[i]);
    any = any || begin[i] != 0 || end[i] != 0;
  }
  return any ? at::constant_pad_nd(input, pads, value) : input;
}

}  // namespace crumb::libtorch

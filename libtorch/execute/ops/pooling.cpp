// AveragePool, MaxPool, LpPool, the global ones, MaxUnpool.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/widen.h"
#include "libtorch/execute/ops/window.h"

namespace crumb::libtorch {
namespace {

using Sizes = std::vector<std::int64_t>;

Window pool_window(const Call& call, const at::Tensor& x) {
  auto kernel = call.ints_attribute("kernel_shape");
  if (!kernel) call.fail("the attribute kernel_shape is missing");
  return window_of(call, x, *kernel, true);
}

/// The input with the padding that the windows reach.
at::Tensor filled(const at::Tensor& x, const Window& window, const at::Scalar& value) {
  Sizes end;
  for (std::size_t i = 0; i < window.axes(); ++i) end.push_back(window.reached_end(i));
  return padded(x, window.begin, end, value);
}

/// The sum over each window. A sum over a box is one over each axis in turn.
at::Tensor window_sums(const at::Tensor& x, const Window& window) {
  at::Tensor all = filled(x, window, 0);
  for (std::size_t i = 0; i < window.axes(); ++i) {
    at::Tensor sum;
    for (std::int64_t k = 0; k < window.kernel[i]; ++k) {
      const std::int64_t from = k * window.dilations[i];
      const std::int64_t to = from + (window.output[i] - 1) * window.strides[i] + 1;
      const at::Tensor part = all.slice(static_cast<std::int64_t>(i) + 2, from, to, window.strides[i]);
      sum = sum.defined() ? sum + part : part;
    }
    all = sum;
  }
  return all;
}

/// How many elements of each window lie in the input, or in the input and its declared padding.
at::Tensor window_counts(const Window& window, bool with_padding, const at::TensorOptions& options) {
  at::Tensor counts = at::ones({1}, options);
  for (std::size_t i = 0; i < window.axes(); ++i) {
    const std::int64_t low = with_padding ? -window.begin[i] : 0;
    const std::int64_t high = window.input[i] + (with_padding ? window.end[i] : 0);
    std::vector<double> on_axis;
    for (std::int64_t o = 0; o < window.output[i]; ++o) {
      // start + k * step in [low, high) for k in [first, last).
      const std::int64_t start = o * window.strides[i] - window.begin[i], step = window.dilations[i];
      const std::int64_t first = start >= low ? 0 : (low - start + step - 1) / step;
      const std::int64_t last = high <= start ? 0 : (high - start + step - 1) / step;
      const std::int64_t count = std::min(last, window.kernel[i]) - first;
      on_axis.push_back(static_cast<double>(std::max<std::int64_t>(0, count)));
    }
    counts = counts.unsqueeze(-1) * at::tensor(on_axis, at::kDouble).to(options);
  }
  return counts.clamp_min(1);
}

bool fits_library(const Window& window) {
  if (window.axes() > 3 || !window.is_plain()) return false;
  for (std::size_t i = 0; i < window.axes(); ++i) {
    if (2 * window.begin[i] > window.kernel[i]) return false;
  }
  return true;
}

Outputs average_pool(const Call& call) {
  const at::Tensor x = widened(call.tensor(0));
  const Window window = pool_window(call, x);
  const bool with_padding = call.int_or("count_include_pad", 0) != 0;
  const bool dense = std::ranges::all_of(window.dilations, [](std::int64_t d) { return d == 1; });
  if (dense && fits_library(window) && x.numel() > 0) {
    switch (window.axes()) {
      case 1:
        return like_input(
            call, at::avg_pool1d(x, window.kernel, window.strides, window.begin, false, with_padding));
      case 2:
        return like_input(
            call, at::avg_pool2d(x, window.kernel, window.strides, window.begin, false, with_padding));
      default:
        return like_input(
            call, at::avg_pool3d(x, window.kernel, window.strides, window.begin, false, with_padding));
    }
  }
  return like_input(call, window_sums(x, window) / window_counts(window, with_padding, x.options()));
}

double power_of(const Call& call) {
  const auto found = call.node().attributes.find("p");
  if (found == call.node().attributes.end()) return 2;
  if (const float* p = std::get_if<float>(&found->second)) return *p;  // before operator set 2
  return static_cast<double>(call.int_or("p", 2));
}

at::Tensor powers(const at::Tensor& x, double p) { return p == 2 ? x * x : x.abs().pow(p); }
at::Tensor root(const at::Tensor& x, double p) { return p == 1 ? x : p == 2 ? x.sqrt() : x.pow(1 / p); }

Outputs lp_pool(const Call& call) {
  const at::Tensor x = widened(call.tensor(0));
  const double p = power_of(call);
  return like_input(call, root(window_sums(powers(x, p), pool_window(call, x)), p));
}

/// Maxima and their indices in the plane of each channel.
std::tuple<at::Tensor, at::Tensor> maxima(const Call& call, const at::Tensor& x, const Window& window,
                                          const Sizes& pads) {
  const Sizes &k = window.kernel, &s = window.strides, &d = window.dilations;
  switch (window.axes()) {
    case 1: {
      // As one row of an image: the one-axis form exists only for floats on some devices.
      auto [values, places] =
          at::max_pool2d_with_indices(x.unsqueeze(2), {1, k[0]}, {1, s[0]}, {0, pads[0]}, {1, d[0]});
      return {values.squeeze(2), places.squeeze(2)};
    }
    case 2: return at::max_pool2d_with_indices(x, k, s, pads, d);
    case 3: return at::max_pool3d_with_indices(x, k, s, pads, d);
    default: call.fail("expected at most 3 spatial axes, found " + std::to_string(window.axes()));
  }
}

/// Places in padded planes as ONNX counts them: over the whole tensor, without padding, row or column major.
at::Tensor flat_places(const at::Tensor& places, const Window& window, const Sizes& padded_sizes,
                       const Sizes& before, bool column_major) {
  at::Tensor rest = places, flat = at::zeros_like(places);
  std::int64_t plane = 1;
  for (const std::int64_t size : window.input) plane *= size;
  std::int64_t step = column_major ? plane : 1;
  for (std::size_t i = window.axes(); i-- > 0;) {
    if (column_major) step /= window.input[i];
    // Where a window holds only padding, or nothing greater than it, the index is moved into the input.
    const at::Tensor on_axis = (rest.remainder(padded_sizes[i]) - before[i])
                                   .clamp(0, std::max<std::int64_t>(0, window.input[i] - 1));
    rest = rest.div(padded_sizes[i], "floor");
    flat = flat + on_axis * step;
    if (!column_major) step *= window.input[i];
  }
  Sizes shape(window.axes() + 2, 1);
  shape[0] = places.size(0);
  shape[1] = places.size(1);
  return flat + at::arange(shape[0] * shape[1], places.options()).reshape(shape) * plane;
}

Outputs max_pool(const Call& call) {
  const graph::ElementType type = call.type(0);
  at::Tensor x = widened(call.tensor(0));
  const Window window = pool_window(call, x);
  double least = -std::numeric_limits<double>::infinity();
  if (!x.is_floating_point()) {
    least = type == graph::ElementType::kUint8 ? 0 : -128;
    x = x.to(at::kFloat);  // exact for the eight-bit types that ONNX allows
  }
  const bool direct = fits_library(window);
  const Sizes none(window.axes(), 0);
  if (!direct) x = filled(x, window, least);
  if (x.numel() == 0) {
    Sizes shape = {x.size(0), x.size(1)};
    shape.insert(shape.end(), window.output.begin(), window.output.end());
    return {wrapped(at::zeros(shape, x.options()), type),
            typed(at::zeros(shape, x.options().dtype(at::kLong)))};
  }
  if (!call.wants(1) && direct && window.axes() == 2) {
    return like_input(call, at::max_pool2d(x, window.kernel, window.strides, window.begin, window.dilations));
  }
  auto [values, places] = maxima(call, x, window, direct ? window.begin : none);
  Outputs outputs = like_input(call, values);
  if (call.wants(1)) {
    const Sizes sizes = x.sizes().slice(2).vec();
    outputs.push_back(typed(flat_places(places, window, sizes, direct ? none : window.begin,
                                        call.int_or("storage_order", 0) != 0)));
  }
  return outputs;
}

Sizes axes_of(const at::Tensor& x) {
  Sizes axes;
  for (std::int64_t i = 2; i < x.dim(); ++i) axes.push_back(i);
  return axes;
}

Outputs global_average_pool(const Call& call) {
  const at::Tensor x = widened(call.tensor(0));
  return like_input(call, x.dim() > 2 ? x.mean(axes_of(x), true) : x);
}

Outputs global_max_pool(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  return like_input(call, x.dim() > 2 ? x.amax(axes_of(x), true) : x);
}

Outputs global_lp_pool(const Call& call) {
  const at::Tensor x = powers(widened(call.tensor(0)), power_of(call));
  return like_input(call, root(x.dim() > 2 ? x.sum(axes_of(x), true) : x, power_of(call)));
}

Outputs max_unpool(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const at::Tensor& places = call.tensor(1);
  const std::size_t axes = spatial_axes(call, x);
  const Sizes kernel = sizes_attribute(call, "kernel_shape", axes, 1);
  const Sizes strides = sizes_attribute(call, "strides", axes, 1);
  const Sizes pads = sizes_attribute(call, "pads", 2 * axes, 0);
  if (places.sizes() != x.sizes()) {
    call.fail("expected as many places as values, found " + text_of(call.in(1)) + " for " +
              text_of(call.in(0)));
  }
  Sizes shape = {x.size(0), x.size(1)};
  std::int64_t total = shape[0] * shape[1];
  for (std::size_t i = 0; i < axes; ++i) {
    shape.push_back((x.size(static_cast<std::int64_t>(i) + 2) - 1) * strides[i] - pads[i] - pads[axes + i] +
                    kernel[i]);
    if (shape.back() < 1 || __builtin_mul_overflow(total, shape.back(), &total)) {
      call.fail("the attributes give an output of " + graph::text_of(shape));
    }
  }
  const at::Tensor flat = places.flatten();
  if (flat.numel() > 0 && (flat.lt(0).any().item<bool>() || flat.ge(total).any().item<bool>())) {
    call.fail("places outside an output of " + graph::text_of(shape));
  }
  at::Tensor y = at::zeros({total}, x.options()).scatter(0, flat, x.flatten()).reshape(shape);
  if (call.has(2)) {
    // The indices count in the shape that the attributes give; a larger shape adds zeros behind.
    const Sizes requested = call.ints(2);
    if (requested.size() != shape.size()) {
      call.fail("output_shape has " + std::to_string(requested.size()) + " entries, expected " +
                std::to_string(shape.size()));
    }
    Sizes change;
    for (std::size_t i = shape.size(); i-- > 0;) {
      change.push_back(0);
      change.push_back(requested[i] - shape[i]);
    }
    y = at::constant_pad_nd(y, change, 0);
  }
  return like_input(call, y);
}

constexpr OperatorRow kPoolingRows[] = {
    {"AveragePool", average_pool},
    {"MaxPool", max_pool},
    {"LpPool", lp_pool},
    {"GlobalAveragePool", global_average_pool},
    {"GlobalMaxPool", global_max_pool},
    {"GlobalLpPool", global_lp_pool},
    {"MaxUnpool", max_unpool},
};

}  // namespace

std::span<const OperatorRow> pooling_operators() { return kPoolingRows; }

}  // namespace crumb::libtorch

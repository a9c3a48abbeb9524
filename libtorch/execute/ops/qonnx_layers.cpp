// QONNX's operators that stand for layers of integers.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/files/text.h"
#include "libtorch/execute/ops/not_finite.h"
#include "libtorch/execute/ops/numbers.h"
#include "libtorch/execute/ops/qonnx_kernels.h"
#include "libtorch/execute/ops/straight_through.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;

/// Where the channels are: as the layout says, else as qonnx 1.0.0 guesses from the rank.
std::int64_t channel_axis(const Call& call, std::int64_t rank) {
  std::string layout = call.text_or("data_layout", "");
  if (layout.empty() && rank == 3) layout = "NWC";
  const std::size_t found = layout.find('C');
  const auto axis = found == std::string::npos ? std::int64_t{1} : static_cast<std::int64_t>(found);
  if (axis >= rank) {
    call.fail("the channels are axis " + std::to_string(axis) + ", but the input has " +
              std::to_string(rank) + " axes");
  }
  return axis;
}

/// How many of a channel's thresholds each value reaches; NaN reaches none.
template <class T>
at::Tensor counts(const at::Tensor& values, const at::Tensor& thresholds, std::int64_t axis) {
  const at::Tensor x = values.contiguous();
  const std::int64_t channels = thresholds.size(0);
  std::vector<std::vector<T>> ascending(static_cast<std::size_t>(channels));
  const at::Tensor table = thresholds.contiguous();
  const T* from = table.const_data_ptr<T>();
  for (auto& steps : ascending) {
    std::copy_if(from, from + thresholds.size(1), std::back_inserter(steps),
                 [](T t) { return !std::isnan(t); });
    std::ranges::sort(steps);
    from += thresholds.size(1);
  }
  at::Tensor out = at::empty_like(x);
  std::int64_t inner = 1;
  for (std::int64_t i = axis + 1; i < x.dim(); ++i) inner *= x.size(i);
  const T* value = x.const_data_ptr<T>();
  T* made = out.mutable_data_ptr<T>();
  const std::int64_t of_x = x.size(axis);
  at::parallel_for(0, x.numel(), 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t channel = channels == 1 ? 0 : i / inner % of_x;
      const auto& steps = ascending[static_cast<std::size_t>(channel)];
      const auto reached = std::upper_bound(steps.begin(), steps.end(), value[i]) - steps.begin();
      made[i] = std::isnan(value[i]) ? T{0} : static_cast<T>(reached);
    }
  });
  return out;
}

}  // namespace

Outputs multi_threshold(const Call& call) {
  note_not_finite(call, true, false);  // infinities reach all thresholds or none
  at::Tensor x = as_number(call.in(0)), thresholds = as_number(call.in(1)).detach();
  const std::int64_t axis = channel_axis(call, x.dim());
  if (thresholds.dim() != 2 || (thresholds.size(0) != 1 && thresholds.size(0) != x.size(axis))) {
    call.fail("thresholds are " + text_of(call.in(1)) + ", expected [" + std::to_string(x.size(axis)) +
              ", T] or [1, T] for " + text_of(call.in(0)) + " with the channels on axis " +
              std::to_string(axis));
  }
  const at::ScalarType type = x.scalar_type();
  const bool wide = type == at::kDouble || thresholds.scalar_type() == at::kDouble;
  const auto compared = [&](const at::Tensor& t) {
    return t.detach().to(at::kCPU, wide ? at::kDouble : at::kFloat);
  };
  at::Tensor count = wide ? counts<double>(compared(x), compared(thresholds), axis)
                          : counts<float>(compared(x), compared(thresholds), axis);
  count = count.to(x.device(), type);
  if (differentiated(x) && thresholds.numel() > 0) {
    // The slope of the line through a channel's outermost steps, where that line rises.
    const std::int64_t steps = thresholds.size(1);
    at::Tensor first = std::get<0>(thresholds.min(1)), last = std::get<0>(thresholds.max(1));
    at::Tensor half = steps > 1 ? (last - first) / (2 * (steps - 1)) : at::ones_like(first);
    std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
    shape[static_cast<std::size_t>(axis)] = thresholds.size(0);
    first = first.to(x.device()).view(shape);
    last = last.to(x.device()).view(shape);
    half = half.to(x.device()).view(shape);
    const at::Tensor pass = (x >= first - half).logical_and(x <= last + half).logical_and(half > 0);
    const at::Tensor slope = at::where(half > 0, 0.5 / half, 0.0).to(type);
    count = straight_through(x, count, pass, slope);
  }
  const double scale = call.float_or("out_scale", 1), bias = call.float_or("out_bias", 0);
  return one((count * scale + bias).to(at::kFloat), ElementType::kFloat);
}

Outputs xnor_popcount_matmul(const Call& call) {
  const at::Tensor a = as_number(call.in(0)), b = as_number(call.in(1));
  if (a.dim() == 0 || b.dim() == 0) {
    call.fail("cannot multiply " + text_of(call.in(0)) + " by " + text_of(call.in(1)));
  }
  const auto [left, right] = common(a, b);
  const at::Tensor product = at::matmul(left * 2 - 1, right * 2 - 1);
  return one(((product + a.size(-1)) * 0.5).to(at::kFloat), ElementType::kFloat);
}

namespace {

struct Im2ColAxis {
  std::int64_t kernel, stride, dilation, before, after;

  std::int64_t outputs(std::int64_t size) const {
    const std::int64_t room = size + before + after - dilation * (kernel - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
  }
};

}  // namespace

/// [N, H, W, C] to [N, out H, out W, kernel H * kernel W * C], every sample for itself.
Outputs im2col(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const auto ints = [&](const char* name, std::vector<std::int64_t> otherwise, std::size_t count) {
    std::vector<std::int64_t> values = call.node().ints_or(name, std::move(otherwise));
    if (values.size() != count) {
      call.fail(std::string(name) + " has " + std::to_string(values.size()) + " numbers, expected " +
                std::to_string(count));
    }
    return values;
  };
  const auto kernel = ints("kernel_size", {}, 2), stride = ints("stride", {}, 2);
  const auto dilation = ints("dilations", {1, 1}, 2), pad = ints("pad_amount", {0, 0, 0, 0}, 4);
  if (x.dim() != 4) call.fail("expected an input [N, H, W, C], found " + text_of(call.in(0)));
  for (const std::int64_t value : {kernel[0], kernel[1], stride[0], stride[1], dilation[0], dilation[1]}) {
    if (value < 1) call.fail("kernel_size, stride and dilations are 1 and more");
  }
  if (*std::ranges::min_element(pad) < 0) call.fail("pad_amount is 0 and more");
  const Im2ColAxis high{kernel[0], stride[0], dilation[0], pad[0], pad[2]};
  const Im2ColAxis wide{kernel[1], stride[1], dilation[1], pad[1], pad[3]};
  const auto value = static_cast<double>(call.int_or("pad_value", 0));
  const at::Tensor padded =
      at::constant_pad_nd(x, {0, 0, wide.before, wide.after, high.before, high.after}, value).contiguous();
  const std::int64_t n = x.size(0), c = x.size(3), h = high.outputs(x.size(1)), w = wide.outputs(x.size(2));
  if (n == 0 || c == 0 || h == 0 || w == 0) {
    return like_input(call, at::empty({n, h, w, kernel[0] * kernel[1] * c}, x.options()));
  }
  const std::int64_t row = padded.stride(1), column = padded.stride(2);
  const at::Tensor windows = padded.as_strided({n, h, w, high.kernel, wide.kernel, c},
                                               {padded.stride(0), high.stride * row, wide.stride * column,
                                                high.dilation * row, wide.dilation * column, 1});
  return like_input(call, windows.reshape({n, h, w, high.kernel * wide.kernel * c}));
}

/// The sum of a window, by way of its mean, shifted right so that the largest sum fits obits.
Outputs quant_avg_pool_2d(const Call& call) {
  const std::int64_t kernel = call.int_or("kernel", 1), stride = call.int_or("stride", 1);
  const std::int64_t in_bits = call.int_or("ibits", 1), out_bits = call.int_or("obits", 1);
  const std::string layout = call.text_or("data_layout", "NCHW");
  if (layout != "NCHW" && layout != "NHWC") {
    call.fail("data_layout is " + quote_text(layout) + ", expected NCHW or NHWC");
  }
  if (kernel < 1 || kernel > 4096 || stride < 1 || in_bits < 1 || in_bits > 32) {
    call.fail("expected kernel and stride of 1 and more, and ibits from 1 to 32; found kernel " +
              std::to_string(kernel) + ", stride " + std::to_string(stride) + ", ibits " +
              std::to_string(in_bits));
  }
  const bool last = layout == "NHWC";
  at::Tensor x = as_number(call.in(0)).to(at::kFloat);
  if (x.dim() != 4) call.fail("expected an input of 4 axes, found " + text_of(call.in(0)));
  if (last) x = x.permute({0, 3, 1, 2}).contiguous();
  const std::uint64_t largest =
      ((std::uint64_t{1} << in_bits) - 1) * static_cast<std::uint64_t>(kernel * kernel);
  const std::int64_t shift = std::max<std::int64_t>(std::bit_width(largest) - out_bits, 0);
  at::Tensor sum =
      at::avg_pool2d(x, {kernel, kernel}, {stride, stride}) * static_cast<double>(kernel * kernel);
  sum = straight_through(sum, rounded(sum, Rounding::kHalfEven));
  sum = sum * std::ldexp(1.0, static_cast<int>(-std::min<std::int64_t>(shift, 126)));
  sum = straight_through(sum, rounded(sum, Rounding::kFloor) + 0.0);  // an integer has no -0
  if (last) sum = sum.permute({0, 2, 3, 1}).contiguous();
  return one(sum, ElementType::kFloat);
}

}  // namespace crumb::libtorch

// Conv, ConvTranspose, Col2Im, CausalConvWithState.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "libtorch/execute/ops/deform_conv.h"
#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/widen.h"
#include "libtorch/execute/ops/window.h"

namespace crumb::libtorch {
namespace {

using Sizes = std::vector<std::int64_t>;

/// The spatial sizes of the weight, which kernel_shape may repeat.
Sizes kernel_of(const Call& call, const at::Tensor& weight) {
  if (weight.dim() < 3) call.fail("the weight has " + std::to_string(weight.dim()) + " axes");
  const Sizes kernel = weight.sizes().slice(2).vec();
  const auto stated = call.ints_attribute("kernel_shape");
  if (stated && !stated->empty() && *stated != kernel) {
    call.fail("kernel_shape is " + graph::text_of(*stated) + ", the weight's is " + graph::text_of(kernel));
  }
  return kernel;
}

at::Tensor bias_of(const Call& call) { return call.has(2) ? widened(call.tensor(2)) : at::Tensor(); }

constexpr std::int64_t kManyPositions = 784;  // in a channel of the input: 28 x 28
constexpr std::int64_t kFewPositions = 256;

/// The input in the order of axes in which oneDNN convolves images fastest: channels last where they are
/// large (up to twice as fast, more than the change costs), first where the weight is large beside them. Only
/// orders of sums depend on it.
at::Tensor in_fast_order(const at::Tensor& x, const at::Tensor& w) {
  const bool plain = x.dim() == 4 && w.dim() == 4 && x.device().is_cpu() && x.scalar_type() == at::kFloat;
  if (!plain || at::GradMode::is_enabled()) return x;
  const std::int64_t positions = x.size(2) * x.size(3);
  if (x.is_contiguous()) {
    const bool windows = w.size(1) == x.size(1) && w.size(2) * w.size(3) > 1;
    return windows && positions >= kManyPositions ? x.contiguous(at::MemoryFormat::ChannelsLast) : x;
  }
  return positions < kFewPositions ? x.contiguous() : x;
}

Outputs convolution(const Call& call) {
  at::Tensor x = widened(call.tensor(0));
  const at::Tensor w = widened(call.tensor(1));
  x = in_fast_order(x, w);
  const Window window = window_of(call, x, kernel_of(call, w));
  Sizes pads = window.begin;
  if (window.begin != window.end) {
    x = padded(x, window.begin, window.end, 0);
    pads.assign(window.axes(), 0);
  }
  return like_input(call, at::convolution(x, w, bias_of(call), window.strides, pads, window.dilations, false,
                                          Sizes(window.axes(), 0), call.int_or("group", 1)));
}

Outputs transposed_convolution(const Call& call) {
  const at::Tensor x = widened(call.tensor(0));
  const at::Tensor w = widened(call.tensor(1));
  const std::size_t axes = spatial_axes(call, x);
  const Sizes kernel = kernel_of(call, w);
  if (kernel.size() != axes) {
    call.fail("the kernel has " + std::to_string(kernel.size()) + " axes, the input " + std::to_string(axes));
  }
  const Sizes strides = sizes_attribute(call, "strides", axes, 1);
  const Sizes dilations = sizes_attribute(call, "dilations", axes, 1);
  const KeptResult kept = kept_of(call, x, kernel, strides, dilations);
  // LibTorch takes off the same padding on both sides, and puts less than a stride or dilation behind.
  bool direct = true;
  Sizes behind(axes), after(axes), before(axes);
  for (std::size_t i = 0; i < axes; ++i) {
    behind[i] = kept.output[i] - (kept.full[i] - 2 * kept.begin[i]);
    direct = direct && behind[i] >= 0 && behind[i] < std::max(strides[i], dilations[i]);
    before[i] = -kept.begin[i];
    after[i] = kept.output[i] + kept.begin[i] - kept.full[i];
  }
  const Sizes none(axes, 0);
  at::Tensor bias = bias_of(call);
  const std::int64_t groups = call.int_or("group", 1);
  if (direct) {
    return like_input(call,
                      at::convolution(x, w, bias, strides, kept.begin, dilations, true, behind, groups));
  }
  at::Tensor y = padded(at::convolution(x, w, at::Tensor(), strides, none, dilations, true, none, groups),
                        before, after, 0);
  if (bias.defined()) {
    Sizes shape(axes + 2, 1);
    shape[1] = -1;
    y = y + bias.reshape(shape);
  }
  return like_input(call, y);
}

Outputs columns_to_image(const Call& call) {
  const at::Tensor& columns = call.tensor(0);
  const Sizes image = call.ints(1), block = call.ints(2);
  const std::size_t axes = image.size();
  if (columns.dim() != 3 || axes == 0 || block.size() != axes) {
    call.fail("expected columns of 3 axes and as many image as block sizes, found " + text_of(call.in(0)) +
              ", " + graph::text_of(image) + ", " + graph::text_of(block));
  }
  // The windows of a convolution over an image of this shape, from an empty tensor with its sizes.
  Sizes shape = {columns.size(0), 1};
  shape.insert(shape.end(), image.begin(), image.end());
  const Window window = window_of(call, at::empty({1}, columns.options()).expand(shape), block);
  std::int64_t positions = 1, blocks = 1;
  for (std::size_t i = 0; i < axes; ++i) {
    positions *= block[i];
    blocks *= window.output[i];
    if (positions > columns.size(1) || blocks > columns.size(2)) break;
  }
  if (positions < 1 || columns.size(1) % positions != 0 || blocks != columns.size(2)) {
    call.fail("columns " + text_of(call.in(0)) + " do not fit blocks of " + graph::text_of(block) +
              " in an image of " + graph::text_of(image));
  }
  const std::int64_t channels = columns.size(1) / positions;
  Sizes split = {columns.size(0), channels, positions};
  split.insert(split.end(), window.output.begin(), window.output.end());
  const at::Tensor parts = columns.reshape(split);
  shape[1] = channels;
  Sizes before(axes), after(axes);
  for (std::size_t i = 0; i < axes; ++i) {
    shape[i + 2] += window.begin[i] + window.end[i];
    before[i] = -window.begin[i];
    after[i] = -window.end[i];
  }
  at::Tensor sum = at::zeros(shape, columns.options());
  for (std::int64_t position = 0; position < positions; ++position) {
    at::Tensor part = sum;
    std::int64_t rest = position;
    for (std::size_t i = axes; i-- > 0;) {
      const std::int64_t from = rest % block[i] * window.dilations[i];
      rest /= block[i];
      const std::int64_t to = from + (window.output[i] - 1) * window.strides[i] + 1;
      part = part.slice(static_cast<std::int64_t>(i) + 2, from, to, window.strides[i]);
    }
    part.add_(parts.select(2, position));
  }
  return like_input(call, padded(sum, before, after, 0));
}

Outputs causal_convolution(const Call& call) {
  const at::Tensor x = widened(call.tensor(0)), w = widened(call.tensor(1));
  if (x.dim() != 3 || w.dim() != 3) call.fail("expected an input and a weight of 3 axes");
  const std::int64_t before = w.size(2) - 1;
  const at::Tensor past =
      call.has(3) ? widened(call.tensor(3)) : at::zeros({x.size(0), x.size(1), before}, x.options());
  const at::Tensor all = at::cat({past, x}, 2);
  at::Tensor y = at::convolution(all, w, bias_of(call), {1}, {0}, {1}, false, {0}, x.size(1));
  const std::string activation = call.text_or("activation", "none");
  if (activation == "silu" || activation == "swish") {
    y = y * at::sigmoid(y);
  } else if (activation != "none") {
    call.fail("activation is \"" + activation + "\", expected none, silu or swish");
  }
  return {wrapped(y, call.type(0)), wrapped(all.slice(2, all.size(2) - before), call.type(0))};
}

constexpr OperatorRow kConvolutionRows[] = {
    {"Conv", convolution},        {"ConvTranspose", transposed_convolution},   {"DeformConv", deform_conv},
    {"Col2Im", columns_to_image}, {"CausalConvWithState", causal_convolution},
};

}  // namespace

std::span<const OperatorRow> convolution_operators() { return kConvolutionRows; }

}  // namespace crumb::libtorch

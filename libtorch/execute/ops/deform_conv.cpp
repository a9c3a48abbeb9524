// DeformConv over any number of spatial axes: every window's elements are sampled where the offsets say, by
// linear interpolation between the neighbours (zero outside the input), and multiplied with the weight as a
// matrix.
#include "libtorch/execute/ops/deform_conv.h"

#include <ATen/ATen.h>

#include "libtorch/execute/ops/widen.h"
#include "libtorch/execute/ops/window.h"

namespace crumb::libtorch {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t kMostAxes = 4;  ///< each doubles the neighbours of a point

std::int64_t product(const Sizes& sizes) {
  std::int64_t all = 1;
  for (const std::int64_t size : sizes) all *= size;
  return all;
}

/// 0, 1, ... on one of several axes, times `step`: of shape [kernel..., output...], flattened to [K, O].
at::Tensor positions(const Window& window, std::size_t axis, const at::TensorOptions& options) {
  const std::size_t axes = window.axes();
  Sizes inner(2 * axes, 1), outer(2 * axes, 1);
  inner[axis] = window.kernel[axis];
  outer[axes + axis] = window.output[axis];
  const at::Tensor within = at::arange(window.kernel[axis], options).mul(window.dilations[axis]);
  const at::Tensor start = at::arange(window.output[axis], options).mul(window.strides[axis]);
  Sizes shape = window.kernel;
  shape.insert(shape.end(), window.output.begin(), window.output.end());
  return (within.reshape(inner) + start.reshape(outer) - window.begin[axis])
      .expand(shape)
      .reshape({product(window.kernel), product(window.output)});
}

/// x is [N, G, C, size...], where[i] [N, G, K, O]: the samples, [N, G, C, K, O].
at::Tensor sampled(const at::Tensor& x, const std::vector<at::Tensor>& where) {
  const std::size_t axes = where.size();
  const at::Tensor flat = x.flatten(3);
  std::vector<at::Tensor> low;
  low.reserve(axes);
  for (const at::Tensor& position : where) low.push_back(position.detach().floor());
  at::Tensor sum;
  for (std::size_t corner = 0; corner < (std::size_t{1} << axes); ++corner) {
    at::Tensor share, index;
    for (std::size_t i = 0; i < axes; ++i) {
      const std::int64_t size = x.size(static_cast<std::int64_t>(i) + 3);
      const std::int64_t side = static_cast<std::int64_t>(corner >> i & 1);
      const at::Tensor at = low[i] + side;
      const at::Tensor inside = at.ge(0).logical_and(at.le(size - 1));
      const at::Tensor part =
          (side ? where[i] - low[i] : low[i] + 1 - where[i]).masked_fill(inside.logical_not(), 0);
      const at::Tensor on_axis = at.nan_to_num(0).clamp(0, size - 1).to(at::kLong);
      share = share.defined() ? share * part : part;
      index = index.defined() ? index * size + on_axis : on_axis;
    }
    Sizes to = {x.size(0), x.size(1), x.size(2), index.size(2) * index.size(3)};
    const at::Tensor taken = flat.gather(3, index.flatten(2).unsqueeze(2).expand(to))
                                 .reshape({to[0], to[1], to[2], index.size(2), index.size(3)});
    const at::Tensor term = taken * share.unsqueeze(2);
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

}  // namespace

Outputs deform_conv(const Call& call) {
  const at::Tensor x = widened(call.tensor(0)), w = widened(call.tensor(1)), offset = widened(call.tensor(2));
  if (w.dim() != x.dim()) call.fail("the weight " + text_of(call.in(1)) + " for " + text_of(call.in(0)));
  const Window window = window_of(call, x, w.sizes().slice(2).vec());
  const std::int64_t axes = static_cast<std::int64_t>(window.axes());
  const std::int64_t groups = call.int_or("group", 1), shifts = call.int_or("offset_group", 1);
  const std::int64_t batch = x.size(0), channels = x.size(1), out = w.size(0);
  const std::int64_t inner = product(window.kernel), outer = product(window.output);
  if (groups < 1 || shifts < 1 || channels % shifts != 0 || w.size(1) * groups != channels ||
      out % groups != 0) {
    call.fail(std::to_string(channels) + " channels in " + std::to_string(groups) + " groups with " +
              std::to_string(shifts) + " groups of offsets, weight " + text_of(call.in(1)));
  }
  if (axes > kMostAxes) call.fail("more than " + std::to_string(kMostAxes) + " spatial axes");
  if (x.numel() == 0) call.fail("the input is empty: " + text_of(call.in(0)));
  const at::Tensor moved = offset.reshape({batch, shifts, inner, axes, outer});
  std::vector<at::Tensor> where;
  for (std::int64_t i = 0; i < axes; ++i) {
    where.push_back(moved.select(3, i) + positions(window, static_cast<std::size_t>(i), x.options()));
  }
  Sizes grouped = {batch, shifts, channels / shifts};
  grouped.insert(grouped.end(), window.input.begin(), window.input.end());
  at::Tensor columns = sampled(x.reshape(grouped), where);
  if (call.has(4)) {
    columns = columns * widened(call.tensor(4)).reshape({batch, shifts, 1, inner, outer});
  }
  columns = columns.reshape({batch, groups, channels / groups * inner, outer});
  at::Tensor y = at::matmul(w.reshape({groups, out / groups, -1}), columns).reshape({batch, out, outer});
  if (call.has(3)) y = y + widened(call.tensor(3)).reshape({1, out, 1});
  Sizes shape = {batch, out};
  shape.insert(shape.end(), window.output.begin(), window.output.end());
  return like_input(call, y.reshape(shape));
}

}  // namespace crumb::libtorch

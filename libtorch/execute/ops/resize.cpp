// Resize and Upsample, axis by axis; by LibTorch's own kernels where those mean the same.
#include "graph/resize.h"

#include <ATen/ATen.h>

#include <cmath>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/shapes.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;

using graph::Interpolation;
using graph::ResizedAxis;
using graph::ResizePlan;
using graph::ResizeRule;
using graph::Taps;
using graph::taps_of;

std::vector<float> floats_of(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().to(at::kCPU, at::kFloat).contiguous();
  return {values.const_data_ptr<float>(), values.const_data_ptr<float>() + values.numel()};
}

/// One result from a tap or a weighted sum of several, along one axis.
at::Tensor blended(const at::Tensor& x, std::int64_t axis, const Taps& taps, double extrapolation) {
  const auto out = static_cast<std::int64_t>(taps.places.size()) / taps.taps;
  Ints shape(static_cast<std::size_t>(x.dim()), 1);
  shape[static_cast<std::size_t>(axis)] = out;
  const at::Tensor places = at::tensor(taps.places, at::kLong).reshape({out, taps.taps}).to(x.device());
  at::Tensor made;
  if (taps.weights.empty()) {
    made = x.index_select(axis, places.select(1, 0));
  } else {
    const auto real = x.is_complex() ? c10::toRealValueType(x.scalar_type()) : x.scalar_type();
    const at::Tensor weights =
        at::tensor(taps.weights, at::kDouble).reshape({out, taps.taps}).to(x.device(), real);
    for (std::int64_t k = 0; k < taps.taps; ++k) {
      const at::Tensor part = x.index_select(axis, places.select(1, k)) * weights.select(1, k).reshape(shape);
      made = made.defined() ? made + part : part;
    }
  }
  if (taps.outside.empty()) return made;
  std::vector<std::uint8_t> outside(taps.outside.begin(), taps.outside.end());
  return made.masked_fill(at::tensor(outside, at::kByte).to(x.device(), at::kBool).reshape(shape),
                          extrapolation);
}

/// Whether LibTorch's nearest kernel, which counts in single or double precision, takes the same elements.
bool is_plain_nearest(const ResizedAxis& axis, const Taps& taps) {
  if (!taps.outside.empty()) return false;
  const float narrow = static_cast<float>(axis.in) / static_cast<float>(axis.out);
  const double wide = static_cast<double>(axis.in) / static_cast<double>(axis.out);
  for (std::int64_t i = 0; i < axis.out; ++i) {
    const std::int64_t place = taps.places[static_cast<std::size_t>(i)];
    const auto in_narrow = static_cast<std::int64_t>(std::floor(static_cast<float>(i) * narrow));
    const auto in_wide = static_cast<std::int64_t>(std::floor(static_cast<double>(i) * wide));
    if (place != i * axis.in / axis.out || place != std::min(in_narrow, axis.in - 1) ||
        place != std::min(in_wide, axis.in - 1)) {
      return false;
    }
  }
  return true;
}

/// Every element `times` times along an axis.
at::Tensor repeated(const at::Tensor& x, std::int64_t axis, std::int64_t times) {
  Ints shape(x.sizes().begin(), x.sizes().end());
  shape.insert(shape.begin() + axis + 1, times);
  return x.unsqueeze(axis + 1).expand(shape).flatten(axis, axis + 1);
}

/// The spatial axes of a [batch, channels, ...] input where only those are resized; nothing otherwise.
std::vector<ResizedAxis> spatial_axes(const at::Tensor& x, const ResizePlan& plan) {
  const std::vector<std::size_t> moving = plan.moving();
  if (x.dim() < 3 || x.dim() > 5 || x.numel() == 0 || moving.empty() || moving[0] < 2) return {};
  return {plan.axes.begin() + 2, plan.axes.end()};
}

std::optional<at::Tensor> library_nearest(const at::Tensor& x, const ResizePlan& plan) {
  const auto axes = spatial_axes(x, plan);
  if (axes.empty() || !(x.is_floating_point() || x.scalar_type() == at::kByte)) return std::nullopt;
  Ints sizes;
  for (const ResizedAxis& axis : axes) {
    if (axis.out == 0 || !is_plain_nearest(axis, taps_of(plan.rule, axis))) return std::nullopt;
    sizes.push_back(axis.out);
  }
  if (sizes.size() == 1) return at::upsample_nearest1d(x, sizes);
  return sizes.size() == 2 ? at::upsample_nearest2d(x, sizes) : at::upsample_nearest3d(x, sizes);
}

std::optional<at::Tensor> library_smooth(const at::Tensor& x, const ResizePlan& plan) {
  const auto axes = spatial_axes(x, plan);
  const ResizeRule& rule = plan.rule;
  const bool cubic = rule.interpolation == Interpolation::kCubic;
  if (axes.empty() || !x.is_floating_point() || rule.antialias || rule.exclude_outside) return std::nullopt;
  if (cubic && (axes.size() != 2 || rule.cubic != -0.75)) return std::nullopt;
  const bool corners = rule.coordinates == "align_corners";
  if (!corners && rule.coordinates != "half_pixel" && rule.coordinates != "pytorch_half_pixel")
    return std::nullopt;
  Ints sizes;
  std::vector<std::optional<double>> scales;
  for (const ResizedAxis& axis : axes) {
    const float width = axis.scale * static_cast<float>(axis.in);
    if (axis.out == 0 || (corners && width != static_cast<float>(axis.out))) return std::nullopt;
    if (axis.out == 1 && rule.coordinates == "pytorch_half_pixel") return std::nullopt;
    sizes.push_back(axis.out);
    scales.emplace_back(axis.scale);
  }
  if (sizes.size() == 1) return at::upsample_linear1d(x, sizes, corners, scales[0]);
  if (sizes.size() == 3) return at::upsample_trilinear3d(x, sizes, corners, scales[0], scales[1], scales[2]);
  return cubic ? at::upsample_bicubic2d(x, sizes, corners, scales[0], scales[1])
               : at::upsample_bilinear2d(x, sizes, corners, scales[0], scales[1]);
}

/// Sums of integers are computed in double precision, and those whose weights have signs and cancel out;
/// those of narrow floats in single.
at::Tensor to_computed(const at::Tensor& x, const ResizeRule& rule) {
  if (x.is_complex() || x.scalar_type() == at::kDouble) return x;
  const bool wide = !x.is_floating_point() || rule.interpolation == Interpolation::kCubic;
  return x.to(wide ? at::kDouble : at::kFloat);
}

/// Rounds to what the element type can hold.
TypedTensor from_computed(const at::Tensor& made, ElementType type) {
  if (!graph::is_integer(type)) return {made.to(carrier_of(type)), type};
  const bool has_sign = graph::info(type).kind == graph::ElementKind::kSigned;
  const int bits = static_cast<int>(graph::info(type).bits);
  const double low = has_sign ? -std::ldexp(1, bits - 1) : 0;
  double high = std::ldexp(1, has_sign ? bits - 1 : bits) - 1;
  if (bits == 64) high = 0x1p63 - 1024;  // the largest double that int64 holds
  return {made.round().clamp(low, high).to(carrier_of(type)), type};
}

Outputs carry_out(const Call& call, const ResizePlan& plan) {
  at::Tensor x = call.tensor(0);
  const std::vector<std::size_t> moving = plan.moving();
  const bool nearest = plan.rule.interpolation == Interpolation::kNearest;
  const TypedTensor& given = call.in(0);
  if (nearest) {
    if (const auto made = library_nearest(x, plan)) return moved(call, *made);
  } else {
    if (const auto made = library_smooth(x, plan)) return moved(call, *made);
    x = to_computed(x, plan.rule);
  }
  for (const std::size_t i : moving) {
    const ResizedAxis& axis = plan.axes[i];
    const auto at = static_cast<std::int64_t>(i);
    if (axis.out == 0) {
      x = x.slice(at, 0, 0);
      continue;
    }
    const Taps taps = taps_of(plan.rule, axis);
    const bool repeats = nearest && axis.out % axis.in == 0 && is_plain_nearest(axis, taps);
    x = repeats ? repeated(x, at, axis.out / axis.in) : blended(x, at, taps, plan.extrapolation);
  }
  return nearest ? moved(call, x) : Outputs{from_computed(x, given.type)};
}

/// Resize and Upsample of any operator set.
Outputs resize(const Call& call) {
  graph::ResizeInputs inputs;
  if (const auto scales = graph::scales_input(call.node()); scales && call.has(*scales))
    inputs.scales = floats_of(call.tensor(*scales));
  if (call.node().op == "Resize" && call.version() >= 11) {
    if (call.has(1)) inputs.region = floats_of(call.tensor(1));
    if (call.has(3)) inputs.sizes = call.ints(3);
  }
  const at::IntArrayRef shape = call.tensor(0).sizes();
  return carry_out(call, graph::plan_resize(call.node(), {shape.data(), shape.size()}, inputs));
}

constexpr OperatorRow kResizeRows[] = {
    {"Resize", resize},
    {"Upsample", resize},
};

}  // namespace

std::span<const OperatorRow> resize_operators() { return kResizeRows; }

}  // namespace crumb::libtorch

// Resize and Upsample, axis by axis; by LibTorch's own kernels where those mean the same.
#include <ATen/ATen.h>

#include <cmath>

#include "base/files/counted.h"
#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/interpolation.h"
#include "libtorch/execute/ops/shapes.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;

struct Plan {
  ResizeRule rule;
  std::vector<ResizedAxis> axes;  ///< one for every axis of the input
  double extrapolation = 0;

  bool is_still(std::size_t i) const {  ///< nothing happens on the axis
    const ResizedAxis& axis = axes[i];
    return axis.in == axis.out && std::abs(axis.scale - 1) < 1e-9 && axis.start == 0 && axis.end == 1;
  }
  std::vector<std::size_t> moving() const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (!is_still(i)) found.push_back(i);
    }
    return found;
  }
};

std::vector<float> floats_of(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().to(at::kCPU, at::kFloat).contiguous();
  return {values.const_data_ptr<float>(), values.const_data_ptr<float>() + values.numel()};
}

/// The size that an axis has after scaling; sizes are counted in single precision.
std::int64_t scaled_size(const Call& call, std::int64_t size, float scale) {
  const float wanted = std::floor(static_cast<float>(size) * scale);
  if (!(scale > 0) || !(wanted < 0x1p48F)) {
    call.fail("expected finite scales above 0, found " + number_text(scale));
  }
  return static_cast<std::int64_t>(wanted);
}

Plan still_plan(const Call& call) {
  Plan plan;
  for (const std::int64_t size : call.tensor(0).sizes()) plan.axes.push_back({.in = size, .out = size});
  return plan;
}

void scale_axes(const Call& call, Plan& plan, const Ints& axes, const std::vector<float>& scales) {
  expect_length(call, "scales", scales.size(), static_cast<std::int64_t>(axes.size()));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    ResizedAxis& axis = plan.axes[static_cast<std::size_t>(axes[i])];
    axis.scale = scales[i];
    axis.out = scaled_size(call, axis.in, scales[i]);
  }
}

void size_axes(const Call& call, Plan& plan, const Ints& axes, const Ints& sizes) {
  expect_length(call, "sizes", sizes.size(), static_cast<std::int64_t>(axes.size()));
  const std::string policy = call.text_or("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller") {
    call.fail("expected keep_aspect_ratio_policy stretch, not_larger or not_smaller, found another");
  }
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    ResizedAxis& axis = plan.axes[static_cast<std::size_t>(axes[i])];
    if (sizes[i] < 0 || sizes[i] > (std::int64_t{1} << 48)) {
      call.fail("expected sizes of 0 or more, found " + graph::text_of(sizes));
    }
    axis.out = sizes[i];
    if (axis.in == 0) continue;
    axis.scale = static_cast<double>(axis.out) / static_cast<double>(axis.in);
    least = std::min(least, axis.scale);
    most = std::max(most, axis.scale);
  }
  if (policy == "stretch") return;
  for (const std::int64_t i : axes) {
    ResizedAxis& axis = plan.axes[static_cast<std::size_t>(i)];
    if (axis.in == 0) continue;
    axis.scale = policy == "not_larger" ? least : most;
    axis.out = static_cast<std::int64_t>(std::floor(axis.scale * static_cast<double>(axis.in) + 0.5));
  }
}

/// What operator sets 11 and later say in attributes.
void read_rule(const Call& call, Plan& plan) {
  ResizeRule& rule = plan.rule;
  const std::string mode = call.text_or("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "cubic" && mode != "bilinear") {
    call.fail("expected mode nearest, linear or cubic, found another");
  }
  rule.interpolation = mode == "nearest" ? Interpolation::kNearest
                       : mode == "cubic" ? Interpolation::kCubic
                                         : Interpolation::kLinear;
  rule.coordinates = call.text_or("coordinate_transformation_mode", "half_pixel");
  rule.rounding = call.text_or("nearest_mode", "round_prefer_floor");
  if (!is_coordinate_mode(rule.coordinates) || !is_nearest_mode(rule.rounding)) {
    call.fail("coordinate_transformation_mode or nearest_mode is unknown");
  }
  rule.cubic = call.float_or("cubic_coeff_a", -0.75F);
  rule.antialias = call.int_or("antialias", 0) != 0;
  rule.exclude_outside = call.int_or("exclude_outside", 0) != 0;
  plan.extrapolation = call.float_or("extrapolation_value", 0);
}

void read_region(const Call& call, Plan& plan, const Ints& axes) {
  if (plan.rule.coordinates != "tf_crop_and_resize") return;
  if (!call.has(1)) call.fail("tf_crop_and_resize needs the input roi");
  const std::vector<float> region = floats_of(call.tensor(1));
  expect_length(call, "roi", region.size(), static_cast<std::int64_t>(axes.size()) * 2);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    ResizedAxis& axis = plan.axes[static_cast<std::size_t>(axes[i])];
    axis.start = region[i];
    axis.end = region[axes.size() + i];
    if (!std::isfinite(axis.start) || !std::isfinite(axis.end)) call.fail("the roi is not finite");
  }
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
std::vector<ResizedAxis> spatial_axes(const at::Tensor& x, const Plan& plan) {
  const std::vector<std::size_t> moving = plan.moving();
  if (x.dim() < 3 || x.dim() > 5 || x.numel() == 0 || moving.empty() || moving[0] < 2) return {};
  return {plan.axes.begin() + 2, plan.axes.end()};
}

std::optional<at::Tensor> library_nearest(const at::Tensor& x, const Plan& plan) {
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

std::optional<at::Tensor> library_smooth(const at::Tensor& x, const Plan& plan) {
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
    const double width = axis.scale * static_cast<double>(axis.in);
    if (axis.out == 0 || (corners && width != static_cast<double>(axis.out))) return std::nullopt;
    if (axis.out == 1 && rule.coordinates == "pytorch_half_pixel") return std::nullopt;
    sizes.push_back(axis.out);
    scales.emplace_back(axis.scale);
  }
  if (sizes.size() == 1) return at::upsample_linear1d(x, sizes, corners, scales[0]);
  if (sizes.size() == 3) return at::upsample_trilinear3d(x, sizes, corners, scales[0], scales[1], scales[2]);
  return cubic ? at::upsample_bicubic2d(x, sizes, corners, scales[0], scales[1])
               : at::upsample_bilinear2d(x, sizes, corners, scales[0], scales[1]);
}

/// Sums of integers are computed in double precision, and those whose weights have signs and cancel out; those of
/// narrow floats in single.
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

Outputs carry_out(const Call& call, const Plan& plan) {
  at::Tensor x = call.tensor(0);
  const std::vector<std::size_t> moving = plan.moving();
  for (const std::size_t i : moving) {
    const ResizedAxis& axis = plan.axes[i];
    if (axis.in == 0 && axis.out > 0) call.fail("cannot resize an empty axis of " + text_of(call.in(0)));
  }
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

/// Upsample, and Resize of operator set 10: scales alone, from the corner.
Plan corner_plan(const Call& call, const std::vector<float>& scales, const char* rounding) {
  Plan plan = still_plan(call);
  read_rule(call, plan);
  plan.rule.coordinates = "asymmetric";
  plan.rule.single = true;
  plan.rule.rounding = rounding;
  scale_axes(call, plan, first_axes(call.tensor(0).dim()), scales);
  return plan;
}

Outputs resize(const Call& call) {
  if (call.version() < 11) return carry_out(call, corner_plan(call, floats_of(call.tensor(1)), "simple"));
  Plan plan = still_plan(call);
  read_rule(call, plan);
  const std::int64_t rank = call.tensor(0).dim();
  const Ints axes = usual_axes(call, call.ints_attribute("axes").value_or(first_axes(rank)), rank);
  const bool scaled = call.has(2) && call.tensor(2).numel() > 0,
             sized = call.has(3) && call.tensor(3).numel() > 0;
  if (scaled == sized && !axes.empty()) {
    call.fail(scaled ? "expected scales or sizes, found both" : "expected scales or sizes, found neither");
  }
  if (scaled) scale_axes(call, plan, axes, floats_of(call.tensor(2)));
  if (sized) size_axes(call, plan, axes, call.ints(3));
  read_region(call, plan, axes);
  return carry_out(call, plan);
}

Outputs upsample(const Call& call) {
  std::vector<float> scales;
  if (call.version() >= 9) {
    scales = floats_of(call.tensor(1));
  } else if (call.version() >= 7) {
    scales = call.node().floats_or("scales", {});
  } else {
    expect_rank(call, 0, 4);
    scales = {1, 1, call.float_or("height_scale", 1), call.float_or("width_scale", 1)};
  }
  return carry_out(call, corner_plan(call, scales, "floor"));
}

constexpr OperatorRow kResizeRows[] = {
    {"Resize", resize},
    {"Upsample", upsample},
};

}  // namespace

std::span<const OperatorRow> resize_operators() { return kResizeRows; }

}  // namespace crumb::libtorch

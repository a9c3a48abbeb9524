#include "graph/resize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/files/counted.h"

namespace crumb::graph {
namespace {

constexpr std::int64_t kMostResized = std::int64_t{1} << 48;

[[noreturn]] void fail_resize(const Node& node, const std::string& text) {
  throw Error(text_of(node) + ": " + text);
}

void expect_count(const Node& node, const char* what, std::size_t found, std::size_t expected) {
  if (found == expected) return;
  fail_resize(node, std::string(what) + ": expected " + std::to_string(expected) + " elements, found " +
                        std::to_string(found));
}

/// Returns the axes that scales and sizes apply to, counted from the front, each once.
std::vector<std::size_t> resized_axes(const Node& node, std::size_t rank) {
  std::vector<std::int64_t> all(rank);
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::size_t> axes;
  for (const std::int64_t axis : node.ints_or("axes", all)) {
    const std::int64_t usual = axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis;
    if (usual < 0 || usual >= static_cast<std::int64_t>(rank))
      fail_resize(node, "axis " + std::to_string(axis) + " is outside the " + std::to_string(rank) +
                            " axes of its input");
    if (std::ranges::find(axes, static_cast<std::size_t>(usual)) != axes.end())
      fail_resize(node, "axis " + std::to_string(usual) + " is named twice");
    axes.push_back(static_cast<std::size_t>(usual));
  }
  return axes;
}

/// Computes sizes in single precision, as scales are.
void scale_axes(const Node& node, ResizePlan& plan, const std::vector<std::size_t>& axes,
                const std::vector<float>& scales) {
  expect_count(node, "scales", scales.size(), axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    ResizedAxis& axis = plan.axes[axes[i]];
    axis.scale = scales[i];
    const float wanted = std::floor(static_cast<float>(axis.in) * axis.scale);
    if (!(axis.scale > 0) || !(wanted < static_cast<float>(kMostResized)))
      fail_resize(node, "expected finite scales above 0, found " + number_text(axis.scale));
    axis.out = static_cast<std::int64_t>(wanted);
  }
}

void size_axes(const Node& node, ResizePlan& plan, const std::vector<std::size_t>& axes,
               const std::vector<std::int64_t>& sizes) {
  expect_count(node, "sizes", sizes.size(), axes.size());
  const std::string policy = node.text_or("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    fail_resize(node, "expected keep_aspect_ratio_policy stretch, not_larger or not_smaller, found another");
  float least = std::numeric_limits<float>::infinity(), most = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    ResizedAxis& axis = plan.axes[axes[i]];
    if (sizes[i] < 0 || sizes[i] > kMostResized)
      fail_resize(node, "expected sizes of 0 or more, found " + text_of(std::span(sizes)));
    axis.out = sizes[i];
    if (axis.in == 0) continue;
    axis.scale = static_cast<float>(axis.out) / static_cast<float>(axis.in);
    least = std::min(least, axis.scale);
    most = std::max(most, axis.scale);
  }
  if (policy == "stretch") return;
  for (const std::size_t i : axes) {
    ResizedAxis& axis = plan.axes[i];
    if (axis.in == 0) continue;
    axis.scale = policy == "not_larger" ? least : most;
    axis.out = static_cast<std::int64_t>(std::floor(axis.scale * static_cast<float>(axis.in) + 0.5F));
  }
}

void crop_axes(const Node& node, ResizePlan& plan, const std::vector<std::size_t>& axes,
               const std::vector<float>& region) {
  if (plan.rule.coordinates != "tf_crop_and_resize") return;
  if (region.empty() && !axes.empty()) fail_resize(node, "tf_crop_and_resize needs the input roi");
  expect_count(node, "roi", region.size(), axes.size() * 2);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    ResizedAxis& axis = plan.axes[axes[i]];
    axis.start = region[i];
    axis.end = region[axes.size() + i];
    if (!std::isfinite(axis.start) || !std::isfinite(axis.end)) fail_resize(node, "the roi is not finite");
  }
}

bool is_old(const Node& node) { return node.op == "Upsample" || node.version < 11; }

/// Returns scales of sets in which they are no input: an attribute with a number for each axis, or one for
/// height and one for width.
std::vector<float> stated_scales(const Node& node, std::size_t rank) {
  if (node.version >= 7) return node.floats_or("scales", {});
  if (rank != 4)
    fail_resize(node,
                "before operator set 7: expected an input of rank 4, found rank " + std::to_string(rank));
  return {1, 1, node.float_or("height_scale", 1), node.float_or("width_scale", 1)};
}

}  // namespace

std::vector<std::size_t> ResizePlan::moving() const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (!axes[i].is_still()) found.push_back(i);
  }
  return found;
}

std::optional<std::size_t> scales_input(const Node& node) {
  if (!is_old(node)) return 2;
  return node.op == "Upsample" && node.version < 9 ? std::nullopt : std::optional<std::size_t>(1);
}

ResizeRule resize_rule(const Node& node) {
  ResizeRule rule;
  const std::string mode = node.text_or("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "cubic" && mode != "bilinear")
    fail_resize(node, "expected mode nearest, linear or cubic, found another");
  rule.interpolation = mode == "nearest" ? Interpolation::kNearest
                       : mode == "cubic" ? Interpolation::kCubic
                                         : Interpolation::kLinear;
  if (is_old(node)) {
    rule.coordinates = "asymmetric";
    rule.rounding = node.op == "Upsample" ? "floor" : "simple";
    return rule;
  }
  rule.coordinates = node.text_or("coordinate_transformation_mode", "half_pixel");
  rule.rounding = node.text_or("nearest_mode", "round_prefer_floor");
  if (!is_coordinate_mode(rule.coordinates) || !is_nearest_mode(rule.rounding))
    fail_resize(node, "coordinate_transformation_mode or nearest_mode is unknown");
  rule.cubic = node.float_or("cubic_coeff_a", -0.75F);
  rule.antialias = node.int_or("antialias", 0) != 0;
  rule.exclude_outside = node.int_or("exclude_outside", 0) != 0;
  return rule;
}

ResizePlan plan_resize(const Node& node, std::span<const std::int64_t> shape, const ResizeInputs& inputs) {
  ResizePlan plan{
      .rule = resize_rule(node), .axes = {}, .extrapolation = node.float_or("extrapolation_value", 0)};
  for (const std::int64_t size : shape) plan.axes.push_back({.in = size, .out = size});
  const std::vector<std::size_t> axes = resized_axes(node, shape.size());
  if (is_old(node)) {
    scale_axes(node, plan, axes, scales_input(node) ? inputs.scales : stated_scales(node, shape.size()));
  } else {
    const bool scaled = !inputs.scales.empty(), sized = !inputs.sizes.empty();
    if (scaled == sized && !axes.empty())
      fail_resize(
          node, scaled ? "expected scales or sizes, found both" : "expected scales or sizes, found neither");
    if (scaled) scale_axes(node, plan, axes, inputs.scales);
    if (sized) size_axes(node, plan, axes, inputs.sizes);
    crop_axes(node, plan, axes, inputs.region);
  }
  for (const ResizedAxis& axis : plan.axes) {
    if (axis.in == 0 && axis.out > 0) fail_resize(node, "cannot resize an empty axis of " + text_of(shape));
  }
  return plan;
}

}  // namespace crumb::graph

#include "graph/interpolation.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace crumb::graph {
namespace {

constexpr std::array kCoordinates = {"half_pixel",        "half_pixel_symmetric", "pytorch_half_pixel",
                                     "align_corners",     "asymmetric",           "tf_half_pixel_for_nn",
                                     "tf_crop_and_resize"};
constexpr std::array kRoundings = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"};

/// Where scales were given, this differs from `out`: the standard divides by the width before it is rounded
/// down. Where sizes were given, the scale is their quotient in float32, and the width is `out`.
double exact_width(const ResizedAxis& axis) {
  const auto out = static_cast<double>(axis.out);
  const double width = static_cast<double>(axis.scale) * static_cast<double>(axis.in);
  constexpr double kOfFloats = 0x1p-23;  // twice the relative rounding error of the quotient
  return std::abs(width - out) <= kOfFloats * out ? out : width;
}

/// Returns the input coordinate of output `at`: in float32 as ONNX Runtime computes it, which decides between
/// two elements; for align_corners, where ONNX Runtime does not follow the standard's formula, in double as
/// ONNX's reference does.
double source_of(const ResizeRule& rule, const ResizedAxis& axis, std::int64_t at) {
  const auto i = static_cast<float>(at), in = static_cast<float>(axis.in);
  const std::string& mode = rule.coordinates;
  if (mode == "asymmetric") return i / axis.scale;
  if (mode == "align_corners") {
    const double width = exact_width(axis);
    return width == 1 ? 0 : static_cast<double>(at) * static_cast<double>(axis.in - 1) / (width - 1);
  }
  if (mode == "tf_half_pixel_for_nn") return (i + 0.5F) / axis.scale;
  if (mode == "tf_crop_and_resize") {
    const float wide = axis.scale * in;
    if (wide == 1) return (axis.start + axis.end) * (in - 1) / 2;
    return axis.start * (in - 1) + i * (axis.end - axis.start) * (in - 1) / (wide - 1);
  }
  if (mode == "pytorch_half_pixel" && axis.out == 1) return 0;
  if (mode == "half_pixel_symmetric") {
    const float adjustment = static_cast<float>(axis.out) / (axis.scale * in);
    const float offset = in / 2 * (1 - adjustment);
    return static_cast<float>(offset + (static_cast<double>(at) + 0.5) / static_cast<double>(axis.scale) -
                              0.5);
  }
  return (i + 0.5F) / axis.scale - 0.5F;
}

double rounded(const std::string& mode, double x, double scale) {
  if (mode == "floor") return std::floor(x);
  if (mode == "ceil") return std::ceil(x);
  if (mode == "round_prefer_ceil") return std::floor(x + 0.5);
  if (mode == "simple") return scale < 1 ? std::ceil(x) : std::floor(x);
  return std::ceil(x - 0.5);
}

/// Returns the weight of an element at distance `x`.
double weight_of(const ResizeRule& rule, double x) {
  x = std::abs(x);
  if (rule.interpolation == Interpolation::kLinear) return std::max(1 - x, 0.0);
  const double a = rule.cubic;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

std::int64_t inside(double index, std::int64_t size) {
  return static_cast<std::int64_t>(std::clamp(index, 0.0, static_cast<double>(size - 1)));
}

/// Computes the weights of the taps around x; the first tap is `before` elements from the one left of x.
void weigh(const ResizeRule& rule, const ResizedAxis& axis, double x, double before, double stretch,
           Taps& taps) {
  const double left = std::ceil(x) - 1, ratio = x - left;
  const bool plain = rule.interpolation == Interpolation::kLinear && !rule.antialias;
  const std::size_t begin = taps.weights.size();
  double sum = 0;
  for (std::int64_t k = 0; k < taps.taps; ++k) {
    const double offset = before + static_cast<double>(k), position = left + offset;
    const bool outside = position < 0 || position >= static_cast<double>(axis.in);
    double weight = plain && k == 1 ? ratio : weight_of(rule, (offset - ratio) * stretch);
    if (rule.exclude_outside && outside) weight = 0;
    taps.places.push_back(inside(position, axis.in));
    taps.weights.push_back(weight);
    sum += weight;
  }
  if ((!rule.antialias && !rule.exclude_outside) || sum == 0) return;
  for (std::size_t k = begin; k < taps.weights.size(); ++k) taps.weights[k] /= sum;
}

}  // namespace

Taps taps_of(const ResizeRule& rule, const ResizedAxis& axis) {
  Taps taps;
  const bool crops = rule.coordinates == "tf_crop_and_resize";
  const double stretch = rule.antialias ? std::min<double>(axis.scale, 1) : 1;
  const double reach = (rule.interpolation == Interpolation::kCubic ? 2 : 1) / stretch;
  const double before = std::floor(-reach) + 1;  // offset of the first tap from the element left of x
  taps.taps = rule.interpolation == Interpolation::kNearest ? 1 : static_cast<std::int64_t>(2 - 2 * before);
  for (std::int64_t i = 0; i < axis.out; ++i) {
    const double x = source_of(rule, axis, i);
    if (crops) taps.outside.push_back(x < 0 || x > static_cast<double>(axis.in - 1));
    if (rule.interpolation == Interpolation::kNearest) {
      taps.places.push_back(inside(rounded(rule.rounding, x, axis.scale), axis.in));
    } else {
      weigh(rule, axis, x, before, stretch, taps);
    }
  }
  if (std::find(taps.outside.begin(), taps.outside.end(), true) == taps.outside.end()) taps.outside.clear();
  return taps;
}

bool is_coordinate_mode(const std::string& name) {
  return std::find(kCoordinates.begin(), kCoordinates.end(), name) != kCoordinates.end();
}

bool is_nearest_mode(const std::string& name) {
  return std::find(kRoundings.begin(), kRoundings.end(), name) != kRoundings.end();
}

}  // namespace crumb::graph

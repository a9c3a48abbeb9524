// Resize and Upsample to the nearest element.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/ops/families.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

enum class Coordinates { kHalfPixel, kSymmetric, kPytorch, kCorners, kAsymmetric };
enum class Nearest { kFloor, kCeil, kPreferFloor, kPreferCeil };

/// Sizes of one axis before and after, and their ratio as it is stated.
struct Axis {
  std::int64_t in = 0, out = 0;
  double scale = 1;
};

/// Where element `at` of the output lies in the input.
double place_of(const Axis& axis, std::int64_t at, Coordinates coordinates) {
  const auto x = static_cast<double>(at), in = static_cast<double>(axis.in),
             out = static_cast<double>(axis.out);
  switch (coordinates) {
    case Coordinates::kHalfPixel: return (x + 0.5) / axis.scale - 0.5;
    case Coordinates::kSymmetric: {
      const double stretch = out / (in * axis.scale);
      return in / 2 * (1 - stretch) + (x + 0.5) / axis.scale - 0.5;
    }
    case Coordinates::kPytorch: return axis.out > 1 ? (x + 0.5) / axis.scale - 0.5 : 0;
    case Coordinates::kCorners: return axis.out > 1 ? x * (in - 1) / (out - 1) : 0;
    case Coordinates::kAsymmetric: break;
  }
  return x / axis.scale;
}

std::int64_t nearest(double place, const Axis& axis, Nearest mode) {
  const double whole = mode == Nearest::kFloor         ? std::floor(place)
                       : mode == Nearest::kCeil        ? std::ceil(place)
                       : mode == Nearest::kPreferFloor ? std::ceil(place - 0.5)
                                                       : std::floor(place + 0.5);
  return static_cast<std::int64_t>(std::clamp(whole, 0.0, static_cast<double>(axis.in - 1)));
}

/// By name; fails where the runtime has no such mode.
template <class T, std::size_t kCount>
T chosen(const NodeFacts& facts, const char* attribute, const char* otherwise,
         const std::pair<const char*, T> (&names)[kCount]) {
  const std::string wish = facts.text_or(attribute, otherwise);
  for (const auto& [name, value] : names) {
    if (wish == name) return value;
  }
  facts.fail(std::string(attribute) + " " + wish + " is not there");
}

/// The axes of an output: by scales, or by sizes where there are any. Empty: neither is there.
std::vector<Axis> axes_of(const Call& call, const Ints& axes, std::span<const float> scales,
                          const Ints& sizes) {
  const Ints& shape = call.in(0).shape();
  std::vector<Axis> made(shape.size());
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = {shape[i], shape[i], 1};
  if (axes.size() != (sizes.empty() ? scales.size() : sizes.size()))
    call.fail("expected a scale or a size for each axis of " + text_of(call.in(0)));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Axis& axis = made[static_cast<std::size_t>(call.usual_axis(axes[i], call.in(0).rank()))];
    axis.scale = sizes.empty() ? static_cast<double>(scales[i])
                               : static_cast<double>(sizes[i]) /
                                     static_cast<double>(std::max<std::int64_t>(axis.in, 1));
    const double out =
        sizes.empty() ? std::floor(static_cast<double>(axis.in) * axis.scale) : static_cast<double>(sizes[i]);
    if (!(axis.scale > 0) || !(out >= 0 && out < 0x1p31) || (axis.in == 0 && out > 0))
      call.fail("cannot resize " + text_of(call.in(0)) + " so");
    axis.out = static_cast<std::int64_t>(out);
  }
  return made;
}

void resize_nearest(Call& call, const std::vector<Axis>& axes, Coordinates coordinates, Nearest mode) {
  const Array x = call.in(0);
  const Ints strides = strides_of(x.shape());
  Ints shape;
  std::vector<Ints> places(axes.size());  // of each axis, in elements of x
  for (const Axis& axis : axes) shape.push_back(axis.out);
  Array& made = call.make(0, x.type(), shape);
  if (made.size() == 0) return;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const bool changes = axes[i].in != axes[i].out || axes[i].scale != 1;
    for (std::int64_t at = 0; at < axes[i].out; ++at)
      places[i].push_back(strides[i] *
                          (changes ? nearest(place_of(axes[i], at, coordinates), axes[i], mode) : at));
  }
  with_width(x, [&]<class T>() {
    const T* const from = reinterpret_cast<const T*>(x.data());
    T* to = reinterpret_cast<T*>(made.writable_data());
    Ints at(axes.size(), 0);
    for (std::size_t n = made.size(); n > 0; --n) {
      std::int64_t place = 0;
      for (std::size_t i = 0; i < axes.size(); ++i) place += places[i][static_cast<std::size_t>(at[i])];
      *to++ = from[place];
      for (std::size_t i = axes.size(); i-- > 0;) {
        if (++at[i] < shape[i]) break;
        at[i] = 0;
      }
    }
  });
}

Ints all_axes(const Call& call) {
  Ints axes(call.in(0).shape().size());
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Kernel resize(const NodeFacts& facts) {
  if (facts.text_or("mode", "nearest") != "nearest")
    facts.fail("mode " + facts.text_or("mode", "") + " is not there");
  if (facts.text_or("keep_aspect_ratio_policy", "stretch") != "stretch")
    facts.fail("a policy of aspect ratios is not there");
  const bool old = facts.version() < 11;  // scales are input 1, and places are x / scale, rounded down
  const auto coordinates =
      chosen<Coordinates>(facts, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel",
                          {{"half_pixel", Coordinates::kHalfPixel},
                           {"half_pixel_symmetric", Coordinates::kSymmetric},
                           {"pytorch_half_pixel", Coordinates::kPytorch},
                           {"align_corners", Coordinates::kCorners},
                           {"asymmetric", Coordinates::kAsymmetric}});
  const auto mode = chosen<Nearest>(facts, "nearest_mode", old ? "floor" : "round_prefer_floor",
                                    {{"floor", Nearest::kFloor},
                                     {"ceil", Nearest::kCeil},
                                     {"round_prefer_floor", Nearest::kPreferFloor},
                                     {"round_prefer_ceil", Nearest::kPreferCeil}});
  const auto axes = facts.ints("axes");
  return [=](Call& call) {
    const Ints sizes = !old && call.has(3) ? call.ints(3) : Ints{};
    const std::size_t at = old ? 1 : 2;
    const auto scales = call.has(at) ? call.floats(at) : std::span<const float>();
    resize_nearest(call, axes_of(call, axes.value_or(all_axes(call)), scales, sizes), coordinates, mode);
  };
}

/// Before version 9 its scales are an attribute.
Kernel upsample(const NodeFacts& facts) {
  if (facts.text_or("mode", "nearest") != "nearest")
    facts.fail("mode " + facts.text_or("mode", "") + " is not there");
  const std::vector<float> stated = facts.node.floats_or("scales", {});
  return [stated](Call& call) {
    const std::span<const float> scales = call.has(1) ? call.floats(1) : std::span<const float>(stated);
    resize_nearest(call, axes_of(call, all_axes(call), scales, {}), Coordinates::kAsymmetric,
                   Nearest::kFloor);
  };
}

}  // namespace

std::span<const OperatorRow> resize_operators() {
  static constexpr OperatorRow kRows[] = {{"Resize", resize}, {"Upsample", upsample}};
  return kRows;
}

}  // namespace crumb::runtime

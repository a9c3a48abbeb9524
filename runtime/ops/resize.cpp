// Resize and Upsample: the nearest element, or sums of the elements around a position, axis by axis.
#include "graph/resize.h"

#include <algorithm>
#include <cmath>

#include "runtime/ops/copy_by_index.h"
#include "runtime/ops/families.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

using graph::ResizePlan;
using graph::Taps;

Ints resized_shape(const ResizePlan& plan) {
  Ints shape;
  for (const graph::ResizedAxis& axis : plan.axes) shape.push_back(axis.out);
  return shape;
}

/// What each index of an axis of the output adds to the offset of its element, or kNoElement. Precondition:
/// no axis of the output is empty.
std::vector<Ints> nearest_offsets(const ResizePlan& plan, const Ints& strides) {
  std::vector<Ints> offsets;
  for (std::size_t i = 0; i < plan.axes.size(); ++i) {
    const graph::ResizedAxis& axis = plan.axes[i];
    Ints& made = offsets.emplace_back();
    const Taps taps = axis.is_still() ? Taps{} : taps_of(plan.rule, axis);
    for (std::int64_t at = 0; at < axis.out; ++at) {
      const auto out = static_cast<std::size_t>(at);
      const bool outside = !taps.outside.empty() && taps.outside[out];
      const std::int64_t place = axis.is_still() ? at : taps.places[out];
      made.push_back(outside ? kNoElement : place * strides[i]);
    }
  }
  return offsets;
}

/// The extrapolated value of tf_crop_and_resize as an element of the array's type.
template <class T>
T extrapolated(const Array& x, float value) {
  T bits{};
  with_carrier(x.carrier(), [&]<class V>() {
    const V wide = static_cast<V>(value);
    if constexpr (sizeof(V) == sizeof(T)) std::memcpy(&bits, &wide, sizeof(T));
  });
  return bits;
}

void resize_nearest(Call& call, const ResizePlan& plan) {
  const Array x = call.in(0);
  const Ints strides = strides_of(x.shape()), shape = resized_shape(plan);
  Array& made = call.make(0, x.type(), shape);
  if (made.size() == 0) return;
  const std::vector<Ints> offsets = nearest_offsets(plan, strides);
  with_width(x, [&]<class T>() {
    copy_by_index<T>(reinterpret_cast<const T*>(x.data()), offsets, extrapolated<T>(x, plan.extrapolation),
                     {reinterpret_cast<T*>(made.writable_data()), made.size()});
  });
}

/// [before, in, after] -> [before, out, after].
std::vector<double> blended(const std::vector<double>& x, std::int64_t before, std::int64_t in,
                            std::int64_t after, const Taps& taps, double extrapolation) {
  const auto out = static_cast<std::int64_t>(taps.places.size()) / taps.taps;
  std::vector<double> made(static_cast<std::size_t>(before * out * after));
  double* row = made.data();
  for (std::int64_t b = 0; b < before; ++b) {
    for (std::int64_t o = 0; o < out; ++o, row += after) {
      if (!taps.outside.empty() && taps.outside[static_cast<std::size_t>(o)]) {
        std::fill_n(row, after, extrapolation);
        continue;
      }
      for (std::int64_t k = o * taps.taps; k < (o + 1) * taps.taps; ++k) {
        const double weight = taps.weights[static_cast<std::size_t>(k)];
        const double* const from = x.data() + (b * in + taps.places[static_cast<std::size_t>(k)]) * after;
        for (std::int64_t a = 0; a < after; ++a) row[a] += from[a] * weight;
      }
    }
  }
  return made;
}

/// A sum as an element: integers are rounded to the nearest that the type holds.
template <class T>
T to_element(double value) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else {
    constexpr double kHigh = static_cast<double>(std::numeric_limits<T>::max() - (sizeof(T) == 8 ? 1023 : 0));
    return static_cast<T>(
        std::clamp(std::nearbyint(value), static_cast<double>(std::numeric_limits<T>::min()), kHigh));
  }
}

void resize_blended(Call& call, const ResizePlan& plan) {
  const Array x = call.in(0);
  Array& made = call.make(0, x.type(), resized_shape(plan));
  if (made.size() == 0) return;
  with_carrier(x.carrier(), [&]<class T>() {
    const std::span<const T> given = x.values<T>();
    std::vector<double> sums(given.begin(), given.end());
    Ints shape = x.shape();
    for (const std::size_t i : plan.moving()) {
      const Taps taps = taps_of(plan.rule, plan.axes[i]);
      const std::int64_t before = product_of(shape, 0, i), after = product_of(shape, i + 1, shape.size());
      call.spend({static_cast<std::size_t>(before), taps.places.size(), static_cast<std::size_t>(after)});
      sums = blended(sums, before, shape[i], after, taps, plan.extrapolation);
      shape[i] = plan.axes[i].out;
    }
    std::ranges::transform(sums, made.writable<T>().begin(), to_element<T>);
  });
}

/// For any operator set.
Kernel resize(const NodeFacts& facts) {
  const bool nearest = graph::resize_rule(facts.node).interpolation == graph::Interpolation::kNearest;
  return [nearest](Call& call) {
    graph::ResizeInputs inputs;
    const auto floats = [&](std::size_t i) {
      return with_carrier(call.in(i).carrier(), [&]<class T>() {
        const std::span<const T> values = call.in(i).values<T>();
        return std::vector<float>(values.begin(), values.end());
      });
    };
    if (const auto scales = graph::scales_input(call.node()); scales && call.has(*scales))
      inputs.scales = floats(*scales);
    if (call.node().op == "Resize" && call.node().version >= 11) {
      if (call.has(1)) inputs.region = floats(1);
      if (call.has(3)) inputs.sizes = call.ints(3);
    }
    const ResizePlan plan = plan_resize(call.node(), call.in(0).shape(), inputs);
    nearest ? resize_nearest(call, plan) : resize_blended(call, plan);
  };
}

}  // namespace

std::span<const OperatorRow> resize_operators() {
  static constexpr OperatorRow kRows[] = {{"Resize", resize}, {"Upsample", resize}};
  return kRows;
}

}  // namespace crumb::runtime

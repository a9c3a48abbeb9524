// Phases of a transposed convolution to their places (lower/domain.h).
#include <algorithm>

#include "base/threads/parallel.h"
#include "runtime/lower/domain.h"
#include "runtime/ops/families.h"
#include "runtime/ops/interleave.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kElementsAtOnce = std::size_t{1} << 15;  // which are worth a thread

/// Of one run. Sizes are by spatial axis.
struct PhaseSizes {
  std::size_t groups = 1, phases = 1, outputs = 0, samples = 0;  ///< outputs: channels of a group
  Ints strides, cut, windows, output;
};

PhaseSizes phase_sizes(const Call& call) {
  const Array& x = call.in(0);
  PhaseSizes s;
  s.groups = static_cast<std::size_t>(std::max<std::int64_t>(call.node().int_or("group", 1), 1));
  s.strides = call.node().ints_or("strides", {});
  s.cut = call.node().ints_or("cut", {});
  const std::size_t axes = s.strides.size();
  bool fits = axes > 0 && s.cut.size() == 2 * axes && x.rank() == static_cast<std::int64_t>(axes) + 2 &&
              std::ranges::all_of(s.strides, [](std::int64_t stride) { return stride > 0; });
  s.phases = fits ? static_cast<std::size_t>(product_of(s.strides, 0, axes)) : 1;
  fits = fits && x.dim(1) % static_cast<std::int64_t>(s.groups * s.phases) == 0;
  for (std::size_t i = 0; fits && i < axes; ++i) {
    const std::int64_t all = product_of(x.dim(static_cast<std::int64_t>(i) + 2), s.strides[i]);
    s.windows.push_back(x.dim(static_cast<std::int64_t>(i) + 2));
    s.output.push_back(all - s.cut[i] - s.cut[axes + i]);
    fits = s.cut[i] >= 0 && s.cut[axes + i] >= 0 && s.output[i] >= 0;
  }
  if (!fits) call.fail("cannot take " + text_of(x) + " as phases");
  s.samples = static_cast<std::size_t>(x.dim(0));
  s.outputs = static_cast<std::size_t>(x.dim(1)) / s.groups / s.phases;
  return s;
}

/// One channel: row by row of the output. `from` has the channel's phases, `apart` elements from each other.
template <class T>
void place_channel(const PhaseSizes& s, const T* from, std::size_t apart, T* to) {
  const std::size_t last = s.strides.size() - 1;
  const auto stride = static_cast<std::size_t>(s.strides[last]);
  const auto width = static_cast<std::size_t>(s.windows[last]);
  const std::int64_t begin = s.cut[last], count = s.output[last];
  const std::int64_t rows = product_of(s.output, 0, last);
  std::vector<T> line(width * stride);
  for (std::int64_t row = 0; row < rows; ++row, to += count) {
    std::size_t phase = 0, at = 0, phase_step = 1, window_step = 1;
    std::int64_t rest = row;
    for (std::size_t i = last; i-- > 0; rest /= s.output[i]) {
      const auto out = static_cast<std::size_t>(rest % s.output[i] + s.cut[i]);
      const auto of_axis = static_cast<std::size_t>(s.strides[i]);
      phase += out % of_axis * phase_step;
      at += out / of_axis * window_step;
      phase_step *= of_axis;
      window_step *= static_cast<std::size_t>(s.windows[i]);
    }
    const T* const first = from + phase * stride * apart + at * width;
    const bool is_whole = begin == 0 && static_cast<std::size_t>(count) == line.size();
    interleave(first, apart, stride, width, is_whole ? to : line.data());
    if (!is_whole) std::copy_n(line.data() + begin, count, to);
  }
}

Kernel phases(const NodeFacts&) {
  return [](Call& call) {
    const PhaseSizes s = phase_sizes(call);
    const Array x = call.in(0);
    const std::size_t channels = s.groups * s.outputs;
    Ints shape{x.dim(0), static_cast<std::int64_t>(channels)};
    shape.insert(shape.end(), s.output.begin(), s.output.end());
    Array& made = call.make(0, x.type(), shape);
    if (made.size() == 0) return;
    const auto windows = static_cast<std::size_t>(product_of(s.windows, 0, s.windows.size()));
    const std::size_t each = made.size() / s.samples / channels;
    with_width(x, [&]<class T>() {
      if constexpr (sizeof(T) > sizeof(float)) {
        call.fail("cannot take " + text_of(x) + " as phases");
      } else {
        const T* const from = reinterpret_cast<const T*>(x.data());
        T* const to = reinterpret_cast<T*>(made.writable_data());
        parallel_for(s.samples * channels, std::max<std::size_t>(1, kElementsAtOnce / each), call.threads(),
                     [&](std::size_t begin, std::size_t end) {
                       for (std::size_t i = begin; i < end; ++i) {
                         const std::size_t row = i / s.outputs * s.phases * s.outputs + i % s.outputs;
                         place_channel(s, from + row * windows, s.outputs * windows, to + i * each);
                       }
                     });
      }
    });
  };
}

}  // namespace

std::span<const OperatorRow> phase_operators() {
  static constexpr OperatorRow kRows[] = {{"Phases", phases, Takes::kAll, kRuntimeDomain}};
  return kRows;
}

}  // namespace crumb::runtime

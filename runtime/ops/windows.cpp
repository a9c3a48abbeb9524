#include "runtime/ops/windows.h"

#include <algorithm>

#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

/// Part of an output row along the last axis, for one tap of the kernel. It has `count` elements; `inside` of
/// them are in the input, from `offset` on, `step` apart. They go to the elements from `before` on; the
/// others are zeros.
struct Run {
  std::size_t count = 0, before = 0, inside = 0;
  std::size_t offset = 0, step = 1;

  void copy(const float* from, float* to) const {
    from += offset;
    std::fill_n(to, before, 0.0F);
    if (step == 1) {
      std::copy_n(from, inside, to + before);
    } else {
      for (std::size_t i = 0; i < inside; ++i) to[before + i] = from[i * step];
    }
    std::fill_n(to + before + inside, count - before - inside, 0.0F);
  }
};

/// The run of one tap in `count` outputs from `out` on.
Run run_of(const Windows& w, const Ints& strides, const Ints& out, const Ints& k, std::size_t count) {
  const std::size_t last = w.axes() - 1;
  const auto apart = static_cast<std::size_t>(w.strides[last]);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < last && offset >= 0; ++i) {
    const std::int64_t place = w.place(i, out[i], k[i]);
    offset = place < 0 ? -1 : offset + place * strides[i];
  }
  Run run{.count = count, .step = apart};
  if (offset < 0) return run;
  const auto is_inside = [&](std::size_t i) {
    return w.place(last, out[last] + static_cast<std::int64_t>(i), k[last]) >= 0;
  };
  while (run.before < count && !is_inside(run.before)) ++run.before;
  std::size_t behind = count;
  while (behind > run.before && !is_inside(behind - 1)) --behind;
  run.inside = behind - run.before;
  if (run.inside > 0)
    run.offset = static_cast<std::size_t>(
        offset + w.place(last, out[last] + static_cast<std::int64_t>(run.before), k[last]));
  return run;
}

}  // namespace

std::size_t Windows::taps() const { return static_cast<std::size_t>(product_of(kernel, 0, axes())); }
std::size_t Windows::elements() const { return static_cast<std::size_t>(product_of(input, 0, axes())); }
std::size_t Windows::positions() const { return static_cast<std::size_t>(product_of(output, 0, axes())); }

std::int64_t Windows::place(std::size_t axis, std::int64_t out, std::int64_t k) const {
  const std::int64_t at = out * strides[axis] + k * dilations[axis] - begin[axis];
  return at >= 0 && at < input[axis] ? at : -1;
}

bool Windows::are_single_elements() const {
  const auto are = [](const Ints& sizes, std::int64_t n) {
    return std::ranges::all_of(sizes, [n](std::int64_t size) { return size == n; });
  };
  return input == output && are(kernel, 1) && are(strides, 1) && are(begin, 0);
}

Windows Windows::on_fewer_axes() const {
  Windows fewer;
  if (are_single_elements()) {
    fewer.kernel = fewer.strides = fewer.dilations = {1};
    fewer.begin = {0};
    fewer.input = fewer.output = {product_of(input, 0, axes())};
    return fewer;
  }
  fewer = *this;
  for (std::size_t i = axes(); i-- > 0;) {
    const bool is_single = kernel[i] == 1 && input[i] == 1 && output[i] == 1 && begin[i] == 0;
    if (!is_single || fewer.axes() == 1) continue;
    for (Ints* sizes :
         {&fewer.kernel, &fewer.strides, &fewer.dilations, &fewer.begin, &fewer.input, &fewer.output})
      sizes->erase(sizes->begin() + static_cast<std::ptrdiff_t>(i));
  }
  return fewer;
}

Windows Windows::part(std::int64_t first, std::int64_t count) const {
  Windows some = *this;
  some.begin[0] -= first * strides[0];
  some.output[0] = count;
  return some;
}

void lay_out(const Windows& w, const float* x, std::size_t channels, std::size_t first, std::size_t end,
             const std::size_t* offsets, float* to) {
  const std::size_t axes = w.axes(), last = axes - 1, taps = w.taps(), elements = w.elements();
  const Ints strides = strides_of(w.input);
  Ints out(axes), k(axes);
  for (std::size_t at = first; at < end;) {
    auto rest = static_cast<std::int64_t>(at);
    for (std::size_t i = axes; i-- > 0; rest /= w.output[i]) out[i] = rest % w.output[i];
    const std::size_t count = std::min(static_cast<std::size_t>(w.output[last] - out[last]), end - at);
    std::ranges::fill(k, 0);
    for (std::size_t tap = 0; tap < taps; ++tap) {
      const Run run = run_of(w, strides, out, k, count);
      for (std::size_t c = 0; c < channels; ++c)
        run.copy(x + c * elements, to + offsets[c * taps + tap] + (at - first));
      for (std::size_t i = axes; i-- > 0;) {
        if (++k[i] < w.kernel[i]) break;
        k[i] = 0;
      }
    }
    at += count;
  }
}

}  // namespace crumb::runtime

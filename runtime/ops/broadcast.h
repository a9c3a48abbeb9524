// Several arrays of shapes that broadcast to one, walked together in runs.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "runtime/operator.h"

namespace crumb::runtime {

/// The shape that all broadcast to. Throws Error, which names the node, where they do not.
inline Ints broadcast_shape(const Call& call, std::span<const Ints* const> shapes) {
  std::size_t rank = 0;
  for (const Ints* shape : shapes) rank = std::max(rank, shape->size());
  Ints made(rank, 1);
  for (const Ints* shape : shapes) {
    for (std::size_t i = 0; i < shape->size(); ++i) {
      std::int64_t& size = made[rank - shape->size() + i];
      const std::int64_t own = (*shape)[i];
      if (own == 1 || own == size) continue;
      if (size != 1)
        call.fail("its inputs do not broadcast to each other: " + graph::text_of(*shape) + " and " +
                  graph::text_of(made));
      size = own;
    }
  }
  return made;
}

/// Calls run(out, {place in each array}, {its step: 0 or 1}, count) for runs that cover an array of shape `whole`, in
/// order; element i of a run lies at place + i * step of each array, and at out + i of the whole.
template <std::size_t kArrays, class Run>
void for_broadcast(const Ints& whole, const std::array<const Ints*, kArrays>& shapes, const Run& run) {
  using Steps = std::array<std::size_t, kArrays>;
  // Axes, the last first, those that all arrays walk in one stride joined; steps of each in elements.
  Ints sizes;
  std::vector<Steps> steps;
  Steps reach;  // elements behind one place of the next axis
  reach.fill(1);
  for (std::size_t back = 1; back <= whole.size(); ++back) {
    const std::int64_t size = whole[whole.size() - back];
    if (size == 0) return;
    Steps step{};
    for (std::size_t k = 0; k < kArrays; ++k) {
      const Ints& shape = *shapes[k];
      const std::int64_t own = back <= shape.size() ? shape[shape.size() - back] : 1;
      step[k] = own == 1 ? 0 : reach[k];
      reach[k] *= static_cast<std::size_t>(own);
    }
    if (size == 1) continue;
    bool joins = !sizes.empty();
    for (std::size_t k = 0; joins && k < kArrays; ++k)
      joins = step[k] == steps.back()[k] * static_cast<std::size_t>(sizes.back());
    if (joins) {
      sizes.back() *= size;
    } else {
      sizes.push_back(size);
      steps.push_back(step);
    }
  }
  if (sizes.empty()) {
    sizes.push_back(1);
    steps.push_back({});
  }
  Ints place(sizes.size(), 0);
  Steps at{};
  for (std::size_t out = 0;; out += static_cast<std::size_t>(sizes[0])) {
    run(out, at, steps[0], static_cast<std::size_t>(sizes[0]));
    std::size_t axis = 1;
    for (; axis < sizes.size(); ++axis) {
      for (std::size_t k = 0; k < kArrays; ++k) at[k] += steps[axis][k];
      if (++place[axis] < sizes[axis]) break;
      for (std::size_t k = 0; k < kArrays; ++k)
        at[k] -= steps[axis][k] * static_cast<std::size_t>(sizes[axis]);
      place[axis] = 0;
    }
    if (axis == sizes.size()) return;
  }
}

}  // namespace crumb::runtime

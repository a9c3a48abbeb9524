#include "runtime/ops/broadcast.h"

#include <algorithm>

namespace crumb::runtime {

Ints broadcast_shape(const Call& call, std::span<const Ints* const> shapes) {
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

void for_broadcast(const Ints& whole, std::span<const Ints* const> shapes, const BroadcastRun& run) {
  const std::size_t arrays = shapes.size();
  // Axes, the last first, those that all arrays walk in one stride joined; steps of each in elements.
  Ints sizes;
  std::vector<Offsets> steps;
  Offsets reach;  // elements of one index step of the next axis
  reach.fill(1);
  for (std::size_t back = 1; back <= whole.size(); ++back) {
    const std::int64_t size = whole[whole.size() - back];
    if (size == 0) return;
    Offsets step{};
    for (std::size_t k = 0; k < arrays; ++k) {
      const Ints& shape = *shapes[k];
      const std::int64_t own = back <= shape.size() ? shape[shape.size() - back] : 1;
      step[k] = own == 1 ? 0 : reach[k];
      reach[k] *= static_cast<std::size_t>(own);
    }
    if (size == 1) continue;
    bool joins = !sizes.empty();
    for (std::size_t k = 0; joins && k < arrays; ++k)
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
  Ints index(sizes.size(), 0);
  Offsets at{};
  for (std::size_t out = 0;; out += static_cast<std::size_t>(sizes[0])) {
    run(out, at, steps[0], static_cast<std::size_t>(sizes[0]));
    std::size_t axis = 1;
    for (; axis < sizes.size(); ++axis) {
      for (std::size_t k = 0; k < arrays; ++k) at[k] += steps[axis][k];
      if (++index[axis] < sizes[axis]) break;
      for (std::size_t k = 0; k < arrays; ++k)
        at[k] -= steps[axis][k] * static_cast<std::size_t>(sizes[axis]);
      index[axis] = 0;
    }
    if (axis == sizes.size()) return;
  }
}

}  // namespace crumb::runtime

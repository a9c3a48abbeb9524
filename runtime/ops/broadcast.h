// Several arrays of shapes that broadcast to one, walked together in runs.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>

#include "runtime/operator.h"

namespace crumb::runtime {

/// The shape that all broadcast to. Throws Error, which names the node, where they do not.
Ints broadcast_shape(const Call& call, std::span<const Ints* const> shapes);

inline constexpr std::size_t kMostBroadcast = 3;  ///< arrays that are walked together
using Places = std::array<std::size_t, kMostBroadcast>;
using BroadcastRun =
    std::function<void(std::size_t out, const Places& at, const Places& step, std::size_t count)>;

/// Calls run(out, {place in each array}, {its step: 0 or 1}, count) for runs that cover an array of shape
/// `whole`, in order; element i of a run lies at place + i * step of each array, and at out + i of the whole.
/// Precondition: at most kMostBroadcast shapes, which broadcast to `whole`.
void for_broadcast(const Ints& whole, std::span<const Ints* const> shapes, const BroadcastRun& run);

}  // namespace crumb::runtime

// Walks several arrays whose shapes broadcast to one, in runs.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>

#include "runtime/operator.h"

namespace crumb::runtime {

/// The shape that all of them broadcast to. Throws Error, which names the node, where there is none.
Ints broadcast_shape(const Call& call, std::span<const Ints* const> shapes);

inline constexpr std::size_t kMostBroadcast = 3;  ///< arrays that are walked together
using Offsets = std::array<std::size_t, kMostBroadcast>;
using BroadcastRun =
    std::function<void(std::size_t out, const Offsets& at, const Offsets& step, std::size_t count)>;

/// Calls run(out, {offset in each array}, {its step: 0 or 1}, count) for runs that cover an array of shape
/// `whole`, in order. Element i of a run is at offset + i * step in each array, and at out + i in the whole.
/// Precondition: at most kMostBroadcast shapes, which broadcast to `whole`.
void for_broadcast(const Ints& whole, std::span<const Ints* const> shapes, const BroadcastRun& run);

}  // namespace crumb::runtime

// Which weights go when a network is pruned: those of least magnitude. Plain numbers, free of LibTorch.
//
// Counts are exact and never more than the share that was asked for. Of equal magnitudes the earlier layer's go first,
// and in a layer those that stand first. What is gone stays gone: masks of a larger share contain those of a smaller.
#pragma once

#include <cstddef>
#include <span>

namespace crumb::qat {

struct PruneLayer {
  std::span<const float> weights;  ///< finite
  std::span<bool> kept;            ///< as many; false where a weight is gone
};

/// How many of `count` a share of them is, rounded down.
std::size_t share_of(double share, std::size_t count);

/// Takes weights until this share of the layer is gone. `kept` is changed.
void prune_layer(const PruneLayer& layer, double share);

/// Takes weights until this share of all layers together is gone, or until each layer is down to `floor` of its own
/// weights (rounded up).
void prune_global(std::span<const PruneLayer> layers, double share, double floor);

/// The steps of a schedule that are due: 1 at the beginning, all of them when half of the training is done, so
/// that the learning rate is high enough still for the weights that are left to make up for the last.
/// progress: from 0 to 1.
int prune_steps_due(double progress, int steps);

}  // namespace crumb::qat

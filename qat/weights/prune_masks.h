// Which weights are pruned: those of least magnitude. Plain numbers, free of LibTorch.
//
// Counts are exact and never more than the share that was asked for. Of equal magnitudes those of the earlier
// layer go first, and within a layer those of the lower index. Pruned weights stay pruned: masks of a larger
// share contain those of a smaller one.
#pragma once

#include <cstddef>
#include <span>

namespace crumb::qat {

struct PruneLayer {
  std::span<const float> weights;  ///< finite
  std::span<bool> kept;            ///< as many; false where a weight is pruned
};

/// Returns how many of `count` a share of them is, rounded down.
std::size_t share_of(double share, std::size_t count);

/// Prunes weights until this share of the layer is gone. Changes `kept`.
void prune_layer(const PruneLayer& layer, double share);

/// Prunes weights until this share of all layers together is gone, or until each layer is down to `floor` of
/// its own weights (rounded up).
void prune_global(std::span<const PruneLayer> layers, double share, double floor);

/// Returns how many steps of a schedule are due: 1 at the beginning, all of them when half of the training is
/// done. Then the learning rate is still high enough for the remaining weights to make up for the last step.
/// progress: from 0 to 1.
int prune_steps_due(double progress, int steps);

}  // namespace crumb::qat

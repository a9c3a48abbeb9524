// Trains the layers of a decoder one after the other.
#pragma once

#include <functional>
#include <vector>

#include "qat/network.h"
#include "tasks/language/language_trainer.h"
#include "tasks/language/text/sequences.h"

namespace crumb::tasks {

/// Trains by `request.block_wise` and stores the result in `network`, which is calibrated and has the same
/// graph and recipe. Throws Error where scales of activations are calibrated, since those of a part differ
/// from those of the whole; where the loss is not finite; where a person asked to stop.
std::vector<LayerLine> train_block_wise(
    const LanguageRequest& request, const Sequences& sequences, qat::Network& network,
    const std::function<void(const LayerLine&, std::int64_t layers)>& layer_done);

}  // namespace crumb::tasks

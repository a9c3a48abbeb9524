// The layers of a decoder, trained one after the other.
#pragma once

#include <functional>
#include <vector>

#include "qat/network.h"
#include "tasks/language/language_trainer.h"
#include "tasks/language/text/sequences.h"

namespace crumb::tasks {

/// Trains by `request.block_wise`, and puts what was learned into `network`, which is calibrated, of the same graph and recipe.
/// Throws Error where activations have scales that are calibrated: those of a part are not those of the whole; where the loss is
/// no finite number; where a person asked to stop.
std::vector<LayerLine> train_block_wise(
    const LanguageRequest& request, const Sequences& sequences, qat::Network& network,
    const std::function<void(const LayerLine&, std::int64_t layers)>& layer_done);

}  // namespace crumb::tasks

// Moments of layers in the branches of Ifs (graph/choose.h), of the samples that take them.
#pragma once

#include <vector>

#include "ptq/samples/layer_moments.h"
#include "ptq/stages.h"

namespace crumb::ptq {

/// Returns the moments of branch_layers() in the float network, in their order; those of a layer that no
/// sample reaches have no samples. Each sample runs through the whole network, and what the engine shows of
/// its branches counts. `even` as for StationMoments. Preconditions: the setting has samples and an engine.
std::vector<LayerMoments> moments_in_branches(const std::vector<SampledLayer>& layers, const Setting& setting,
                                              bool even);

}  // namespace crumb::ptq

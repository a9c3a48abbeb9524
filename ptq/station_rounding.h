// Layers rounded station by station (sample_stream.h), on samples that come through the layers before them as those were rounded.
//
// In memory are the weights of one part of the network, between two stations, what the samples bring there, and codes; with a
// LayerStore, no codes of layers that were passed. What an earlier run left there is not found again: samples run through it.
#pragma once

#include <functional>
#include <vector>

#include "ptq/layer_moments.h"
#include "ptq/layer_rounding.h"
#include "ptq/stages.h"

namespace crumb::ptq {

struct StationOptions {
  bool float_inputs = false;  ///< moments across from the float network's inputs are wanted, too
  bool even = false;          ///< as StationMoments has it
};

/// Finds codes of a layer. The matrix and the moments are its own.
using RoundLayer = std::function<RoundedLayer(const SampledLayer&, WeightRows, LayerMoments)>;

/// Gives constants of the plan their codes, layer by layer. Precondition: the setting has samples and an engine; the layers are
/// sampled_layers() of its graph and plan. Throws what `round` throws.
StageReport round_stations(const Stage& stage, Setting& setting, const std::vector<SampledLayer>& layers,
                           const StationOptions& options, const RoundLayer& round);

}  // namespace crumb::ptq

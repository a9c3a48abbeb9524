// Layers rounded station by station (sample_stream.h), on samples that come through the layers before them as those were rounded.
// What else of the network becomes codes has them before the first sample comes: shared matrices (shared_matrices.h), and
// whatever is rounded by its spec alone, as tables of embeddings are.
//
// In memory are the weights of one part of the network, between two stations, what the samples bring there, and codes; with a
// LayerStore, no codes of layers that were passed. What an earlier run left there is not found again: samples run through it.
#pragma once

#include <functional>
#include <vector>

#include "ptq/rounding/layer_rounding.h"
#include "ptq/rounding/shared_matrices.h"
#include "ptq/samples/layer_moments.h"
#include "ptq/stages.h"

namespace crumb::ptq {

struct StationOptions {
  bool float_inputs = false;  ///< moments across from the float network's inputs are wanted, too
  bool even = false;          ///< as StationMoments has it
};

/// What is rounded on samples: sampled_layers() and shared_matrices() of a graph and its plan.
struct RoundedParts {
  std::vector<SampledLayer> layers;
  std::vector<SharedMatrix> shared;
  std::vector<std::size_t> left = {};  ///< constants of the plan that could be, and keep rounding

  bool contain(std::size_t constant) const;  ///< of the plan
};

/// Finds codes of a layer, or of a shared matrix as its first product has it. The matrix and the moments are its own.
using RoundLayer = std::function<RoundedLayer(const SampledLayer&, WeightRows, LayerMoments)>;

/// Gives constants of the plan their codes, layer by layer. Precondition: the setting has samples and an engine. Throws what
/// `round` throws.
StageReport round_stations(const Stage& stage, Setting& setting, const RoundedParts& parts,
                           const StationOptions& options, const RoundLayer& round);

}  // namespace crumb::ptq

// Rounds layers station by station (sample_stream.h), on samples that pass through the earlier layers as
// rounded. All other constants get their codes before the first sample runs: shared matrices
// (shared_matrices.h), layers in branches of Ifs, on the float network's inputs of the samples that take them
// (branch_moments.h), and constants rounded by their specs alone, such as embedding tables, and layers in
// branches that no sample takes.
//
// Memory holds the weights of the part of the network between two stations, the samples' values there, and
// codes; with a LayerStore, no codes of earlier layers. Codes that an earlier run left there are not chosen
// again: samples run through them.
#pragma once

#include <functional>
#include <vector>

#include "ptq/rounding/layer_rounding.h"
#include "ptq/rounding/shared_matrices.h"
#include "ptq/samples/layer_moments.h"
#include "ptq/stages.h"

namespace crumb::ptq {

struct StationOptions {
  bool float_inputs = false;  ///< request cross moments with the float network's inputs
  bool even = false;          ///< as for StationMoments
};

/// What is rounded on samples: sampled_layers(), shared_matrices() and branch_layers() of a graph and its
/// plan.
struct RoundedParts {
  std::vector<SampledLayer> layers;
  std::vector<SharedMatrix> shared;
  std::vector<SampledLayer> branched = {};  ///< those in branches, which only some samples reach
  std::vector<std::size_t> left = {};       ///< constants of the plan that could be, but keep rounding

  bool contain(std::size_t constant) const;  ///< indices in the plan
};

/// Chooses codes of a layer, or of a shared matrix given as its first product. It may change the matrix and
/// the moments.
using RoundLayer = std::function<RoundedLayer(const SampledLayer&, WeightRows, LayerMoments)>;

/// Gives constants of the plan their codes, layer by layer. Precondition: the setting has samples and an
/// engine. Throws what `round` throws.
StageReport round_stations(const Stage& stage, Setting& setting, const RoundedParts& parts,
                           const StationOptions& options, const RoundLayer& round);

}  // namespace crumb::ptq

// What each layer costs alone: the baseline's result where one layer is quantized as in the model.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "jobs/evaluate/layers/changed_network.h"
#include "jobs/evaluate/layers/layer_runs.h"

namespace crumb::jobs {

/// The values of the baseline that do not follow from a layer and that a changed layer, or what follows from
/// it, takes: whoever has them need not run what is in front of it. Without the network's inputs.
std::set<std::string> values_in_front(const LayerPair& pair);

/// SQNR of the baseline's result with this layer as the model has it (ResultLoss). Runs what is behind the
/// layer on the values in front of it where `runs` keeps them, else all of the network. `weights`:
/// model_weights_of.
std::optional<double> cost_alone(const LayerPair& pair, const std::vector<graph::Tensor>& weights,
                                 const BaselineRuns& runs, const LayerSamples& samples,
                                 const PrepareGraph& prepare);

}  // namespace crumb::jobs

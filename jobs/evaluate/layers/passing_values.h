// What passes through the layers of a model: the numbers that they take in and give, beside the baseline's.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "jobs/evaluate/layers/changed_network.h"
#include "jobs/evaluate/layers/layer_runs.h"

namespace crumb::jobs {

/// EvaluateLayer's figures of the same names.
struct PassingValues {
  std::optional<double> accumulated_db, low, high, clipped;
  std::optional<std::uint64_t> channels, dead_channels;
};

/// What a layer gives, its bias added: some files add it in a node of its own, others in the layer's.
std::string given_by(const LayeredNetwork& network, const NetworkLayer& layer);

/// A layer of the model, and the baseline's where it is matched.
struct PassedLayer {
  const NetworkLayer* of_model = nullptr;
  const NetworkLayer* of_baseline = nullptr;
};

/// Runs both networks: several times where what the baseline's layers give in one piece of the samples takes
/// more than `bytes`. `inputs`: for each of the model's inputs, its place among the baseline's.
std::vector<PassingValues> measure_passing(const LayeredNetwork& model, const LayeredNetwork& baseline,
                                           const std::vector<PassedLayer>& layers,
                                           const std::vector<std::size_t>& inputs, const BaselineRuns& runs,
                                           const LayerSamples& samples, const PrepareGraph& prepare,
                                           std::uint64_t bytes);

}  // namespace crumb::jobs

// Measures the layers of one model against the float baseline.
#pragma once

#include <cstddef>
#include <string>

#include "jobs/evaluate/layers/layer_runs.h"
#include "jobs/evaluate_layer.h"
#include "jobs/observer.h"

namespace crumb::jobs {

inline constexpr std::size_t kUsualLayerSamples = 64;

struct LayerEvaluation {
  std::string path;  ///< the model's, for messages
  const graph::Graph& model;
  const graph::Graph& baseline;
  const graph::Batches& batches;          ///< samples as the baseline takes them
  graph::BatchAxes axes, model_axes;      ///< of samples, in the baseline's inputs and in the model's
  std::size_t most = kUsualLayerSamples;  ///< samples
  PrepareGraph prepare;
  int threads = 0;
  std::uint64_t memory = std::uint64_t{512} << 20;  ///< bytes of what the baseline computes, that are kept
};

/// Of an engine's name: auto, runtime, libtorch.
PrepareGraph prepare_on(const std::string& engine, int threads);

/// Measures layers; `interrupted` is set, and figures are missing, where a person asked to stop. Layers are
/// matched by names, else by order, which a note says; another names those that are not matched. Memory: both
/// networks, twice where one is prepared again, the samples' inputs, and at most `memory` bytes of what the
/// baseline computes for them. A model whose quantizers are not understood has no layers, and a note says why.
EvaluateLayers evaluate_layers(const LayerEvaluation& evaluation, bool& interrupted, Observer& observer);

}  // namespace crumb::jobs

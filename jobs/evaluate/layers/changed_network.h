// Networks in which one layer differs: the baseline with one layer as the model has it, and the model with
// one layer put back.
#pragma once

#include <optional>
#include <vector>

#include "jobs/evaluate/layers/layered_network.h"

namespace crumb::jobs {

/// A layer in both networks, none of them null.
struct LayerPair {
  const LayeredNetwork* model = nullptr;
  const LayeredNetwork* baseline = nullptr;
  const NetworkLayer* of_model = nullptr;
  const NetworkLayer* of_baseline = nullptr;
};

/// The weights of a layer, float32: the model's as the baseline's node takes them, or the baseline's as they
/// are; nothing where they cannot be computed.
std::optional<std::vector<graph::Tensor>> model_weights_of(const LayerPair& pair);
std::optional<std::vector<graph::Tensor>> baseline_weights_of(const LayerPair& pair);

/// The baseline where this layer alone has these weights, and takes its input through copies of the model's
/// quantizers. These stand where the model has them: in front of nodes that move elements, of each input of a
/// Concat. Other consumers of the same values take them as they were.
graph::Graph with_model_layer(const LayerPair& pair, const std::vector<graph::Tensor>& weights);

/// A layer of the model that is put back.
struct PutBack {
  LayerPair pair;
  std::vector<graph::Tensor> weights;  ///< as the baseline's node takes them
  bool input = false;                  ///< takes its input without a quantizer, too
};

/// The model with these layers put back, all of one model and each once. Other consumers of their weights and
/// inputs keep what they had.
graph::Graph with_baseline_layers(std::vector<PutBack> layers);

}  // namespace crumb::jobs

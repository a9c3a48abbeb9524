// The head of an encoder that scores texts (formats/checkpoint/score_head.h), as nodes.
#pragma once

#include <cstddef>
#include <string>

#include "formats/checkpoint/score_head.h"
#include "models/layer_builder.h"

namespace crumb::models {

/// The layers of a head, by the names of their tensors.
struct ScoreLayers {
  std::string dense;       ///< in front of `activation`: "bert.pooler.dense"
  std::string classifier;  ///< behind it, one output for each label
  bool dense_bias = true;
  Activation activation = Activation::kTanh;
  std::string norm = {};  ///< between the activation and the classifier; "": none
  bool norm_bias = true;
  float norm_epsilon = 0;
};

/// Adds the output scores, [batch, labels]: the head's function of the classifier's logits. `pooled`: the
/// values that the head sees, [batch, hidden_size]. Throws Error as ModelWeights::add does.
void add_score_head(LayerBuilder& build, const ScoreHead& head, const ScoreLayers& layers,
                    const std::string& pooled, std::size_t hidden_size);

/// The states of the first token, [batch, hidden_size].
std::string first_states(LayerBuilder& build, const std::string& states);

}  // namespace crumb::models

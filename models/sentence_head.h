// What follows the transformer in a sentence-transformers model (formats/checkpoint/sentence_modules.h), as
// nodes.
#pragma once

#include <cstddef>
#include <string>

#include "models/layer_builder.h"

namespace crumb::models {

/// Values of the transformer.
struct TokenStates {
  std::string states;  ///< float32 [batch, sequence, hidden_size]
  std::string mask;    ///< float32 [batch, sequence]: 1, and 0 for padding
  std::string tokens;  ///< the same as int64
};

/// Adds the output sentence_embedding, [batch, width]; nothing without modules.json. Padding stands behind
/// the tokens or before them, but for the pooling mode cls, which takes the first place (with kPooledInput
/// the first that is pooled). Throws Error as SentenceModules::read and ModelWeights::add do.
void add_sentence_head(LayerBuilder& build, const TokenStates& tokens, size_t hidden_size);

/// The mean of the states of a text's tokens, [batch, hidden_size].
std::string mean_states(LayerBuilder& build, const TokenStates& tokens);

}  // namespace crumb::models

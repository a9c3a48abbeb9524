// Where the tokens of an encoder's lines stand, and rotary embeddings of positions, as nodes.
#pragma once

#include <string>

#include "models/layer_builder.h"

namespace crumb::models {

/// Values that attention masks and positions of lines are made of.
struct TokenPlaces {
  std::string keys;       ///< int64 [sequence]: 0, 1, ...
  std::string queries;    ///< the same as [sequence, 1]
  std::string tokens;     ///< bool [batch, 1, 1, sequence]: whether a key is a token
  std::string positions;  ///< int64 [batch, sequence]: the number of tokens before each
};

/// Makes them of the inputs input_ids and attention_mask, int64 [batch, sequence].
TokenPlaces token_places(LayerBuilder& build);

/// bool [batch, 1, 1, keys] of the input attention_mask.
std::string token_mask(LayerBuilder& build);

/// What RotaryEmbedding takes: float32 [batch, sequence, size / 2].
struct RotationTable {
  std::string cosine, sine;
};

/// Positions, int64 [batch, sequence], as a column that rotation_table() takes.
std::string positions_column(LayerBuilder& build, const std::string& positions);

/// Nodes called NAME.angles, NAME.cos and NAME.sin. `frequencies`: a value [size / 2].
RotationTable rotation_table(LayerBuilder& build, const std::string& name, const std::string& column,
                             const std::string& frequencies, float factor);

}  // namespace crumb::models

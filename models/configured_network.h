// Whether the graph in a packed file is the network that its configuration means.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quant/tensor_source.h"

namespace crumb::models {

/// Throws Error where what is made of a packed file's tensors and configuration, for other tools, would be
/// another network than its graph: one that multiplies by matrices that a network of this config.json has not
/// (crumb quantize --stages rotate; adapters and caches are no matter here), by matrices of another shape
/// (--stages split), by gains that no weight gives (smooth and awq, where a gain is 1 and a weight), or a
/// decoder that rotates queries and keys by other frequencies. Files of models that crumb train lm trained
/// while frequencies were no buffers of the graph (graph/buffers.h) are of the latter kind.
void expect_network_of_configuration(const TensorSource& source);

/// A head that is stored although the configuration says that the table of embeddings is the head
/// (tie_word_embeddings): the network computes with the table, and whoever finds both in a folder may take
/// the head for another one. Nothing where none is.
std::optional<std::string> unused_head(const TensorSource& source);

/// "'lm_head.weight' is left out: ..."
std::string note_of_unused_head(const std::string& name);

/// What a person should know of a packed file's quantizers of activations and caches, which are nodes of its
/// graph and nothing of its tensors and configuration; empty where it has none.
std::vector<std::string> notes_of_quantizers(const TensorSource& source);

}  // namespace crumb::models

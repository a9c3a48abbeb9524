// The head of a decoder whose configuration ties it to the embeddings.
#pragma once

#include "formats/checkpoint/checkpoint.h"

namespace crumb::models {

/// Throws Error where config.json has tie_word_embeddings and the checkpoint a head of its own,
/// lm_head.weight, of other values than the embeddings': transformers before version 5 computes logits by the
/// embeddings then, from 5 on by the head. One of the same values is no fault. Reads both; of a checkpoint
/// without a configuration that is known here, nothing.
void expect_tied_head(const Checkpoint& checkpoint);

}  // namespace crumb::models

// ModernBERT (formats/checkpoint/modernbert_config.h) as a graph.
#pragma once

#include "base/json/json_file.h"
#include "graph/graph.h"
#include "models/model_weights.h"

namespace crumb::models {

/// Inputs are input_ids and attention_mask, int64 [batch, sequence]; outputs last_hidden_state and what
/// add_sentence_head() adds; operator set 24. Tensor names are those of Hugging Face's ModernBertModel, with
/// "model." before them or not. Throws Error as ModernBertConfig::parse and ModelWeights::add do.
graph::Graph build_modernbert(ModelWeights& weights, const JsonFile& config);

}  // namespace crumb::models

// BERT (Devlin et al. 2018) as a graph.
#pragma once

#include "base/json/json_file.h"
#include "graph/graph.h"
#include "models/model_weights.h"

namespace crumb::models {

/// Tensor names are those of Hugging Face's BertModel, with "bert." before them or not. Throws Error as
/// BertConfig::parse and ModelWeights::add do.
graph::Graph build_bert(ModelWeights& weights, const JsonFile& config);

}  // namespace crumb::models

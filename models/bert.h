// Encoders of BERT's form as a graph: BERT (Devlin et al. 2018), RoBERTa (Liu et al. 2019) and its kin, MPNet
// (Song et al. 2020).
#pragma once

#include "base/json/json_file.h"
#include "graph/graph.h"
#include "models/model_weights.h"

namespace crumb::models {

/// Tensor names are those of Hugging Face's BertModel, RobertaModel or MPNetModel, with "bert." (and so on)
/// before them or not. Throws Error as BertConfig::parse and ModelWeights::add do.
graph::Graph build_bert(ModelWeights& weights, const JsonFile& config);

}  // namespace crumb::models

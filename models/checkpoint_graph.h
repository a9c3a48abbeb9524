// The network of a checkpoint as a graph: what config.json says, with the tensors that the checkpoint holds.
//
// Known are encoders of the BERT family (Devlin et al. 2018), with the sentence-transformers modules behind
// them, and decoders of the Llama kind (models/decoder.h). An encoder's inputs are input_ids, attention_mask
// and token_type_ids, int64 [batch, sequence], both sizes open; its outputs last_hidden_state, float32
// [batch, sequence, hidden_size], and where the checkpoint has a modules.json sentence_embedding, float32
// [batch, width], or where it has a head of classes scores, float32 [batch, labels]; operator set 17. Weights
// have the checkpoint's names, and nodes those of its layers; matrices of linear layers have the axes [in,
// out] that MatMul wants. Quantized tensors stay codes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "models/model_weights.h"
#include "models/weight_source.h"
#include "quant/tensor_source.h"

namespace crumb::models {

struct CheckpointGraph {
  graph::Graph graph;
  std::vector<std::string> unused;  ///< tensors that no output depends on: a pooler, heads for other tasks
};

/// Whether a path is for read_checkpoint_graph: a folder, a GGUF file, or a packed file that is more than a
/// graph.
bool is_checkpoint(const std::filesystem::path& path);

/// Each tensor is read once. Throws Error, which begins with `name`: an architecture that is not known (the
/// known ones are named), a tensor that is missing or of another shape than config.json says, damaged bytes,
/// a checkpoint that another tool quantized.
CheckpointGraph graph_of_checkpoint(const TensorSource& source, const std::string& name);

/// The same with large weights in floats left where they are, and read whenever somebody asks for them
/// (graph::Tensor::unread): the source stays open as long as the graph lives.
CheckpointGraph graph_on_checkpoint(std::shared_ptr<const TensorSource> source, const std::string& name);

/// The same of what is open; messages begin with what it calls itself.
CheckpointGraph graph_of_weights(const WeightSource& source);

/// The network of the configuration among the weights' files, with what these weights add.
graph::Graph graph_of_config(ModelWeights& weights);

/// The same for a packed file, a folder or any other checkpoint.
CheckpointGraph read_checkpoint_graph(const std::filesystem::path& path);

}  // namespace crumb::models

// Decoders of the Llama kind (formats/checkpoint/decoder_config.h) as a graph, one for prompts and for steps.
//
// Inputs, int64 except the last, L being a layer:
//   input_ids [batch, sequence]
//   attention_mask [batch, past + sequence]   1 for tokens and 0 for padding, those of the past first
//   position_ids [batch, sequence]
//   past_key_values.L.key, past_key_values.L.value   float32 [batch, kv_heads, past, head_size], of layers
//                                                    with keys and values of their own
// Outputs:
//   logits [batch, sequence, vocab_size]
//   present.L.key, present.L.value   [batch, kv_heads, past + sequence, head_size]: the past, followed by the
//                                    new keys or values
//
// A query sees keys by their index along past + sequence, not by position_ids: the earlier ones that are
// tokens, the nearest of these in a window, and always its own, so that rows of padding are finite. Keys are
// kept rotated. A layer with a kv_source (DecoderLayer) takes that layer's keys, values and past, and no node
// reads its present (graph/attention_caches.h). Operator set 24; the mask is boolean. Matrices have the axes
// [in, out]; an embedding that is also the head stays one tensor, which a Gemm takes as it is stored.
#pragma once

#include <string>
#include <vector>

#include "base/json/json_file.h"
#include "formats/checkpoint/decoder_config.h"
#include "graph/graph.h"
#include "models/model_weights.h"

namespace crumb::models {

/// Builds the graph from tensors named as in transformers' ...ForCausalLM. Throws Error as
/// DecoderConfig::parse and ModelWeights::add do.
graph::Graph build_decoder(ModelWeights& weights, const JsonFile& config);
/// Builds it from a parsed configuration. Throws Error as ModelWeights::add does, and where a kv_source is no
/// earlier layer with keys and values of its own, or projections are fused.
graph::Graph build_decoder(ModelWeights& weights, DecoderConfig config);

/// Builds the same as a sentence encoder, with the modules of its modules.json behind it. Tensors are named
/// as in transformers' ...Model, with "model." before them or not. Inputs are input_ids and attention_mask,
/// int64 [batch, sequence]; outputs last_hidden_state [batch, sequence, hidden_size], which the last norm
/// made, and those of add_sentence_head() (sentence_head.h). A token's position is the number of tokens
/// before it. With "use_bidirectional_attention" a query sees the keys behind it, too, and those of a window
/// on either side; build_decoder() refuses that. Throws Error as build_decoder() and add_sentence_head() do.
graph::Graph build_decoder_as_encoder(ModelWeights& weights, const JsonFile& config);

/// Returns the name of the constant that holds the frequencies of a rotation of the configuration; equal
/// rotations share one.
std::string frequencies_name(std::size_t rotation);
std::string long_frequencies_name(std::size_t rotation);

/// Returns the names of the layers' outputs, float32 [batch, sequence, hidden_size], from the first layer to
/// the last.
std::vector<std::string> layer_outputs(const graph::Graph& decoder);

}  // namespace crumb::models

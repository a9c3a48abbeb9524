// Decoders of the Llama kind (formats/checkpoint/decoder_config.h) as a graph, one for prompts and for steps.
//
// Inputs, int64 but for the last, L being a layer:
//   input_ids [batch, sequence]
//   attention_mask [batch, past + sequence]   1 for places of tokens and 0 for padding, those of the past first
//   position_ids [batch, sequence]
//   past_key_values.L.key, past_key_values.L.value   float32 [batch, kv_heads, past, head_size], of layers with keys and
//                                                    values of their own
// Outputs:
//   logits [batch, sequence, vocab_size]
//   present.L.key, present.L.value   [batch, kv_heads, past + sequence, head_size]: the past with the new places behind it
//
// A query sees places, not positions: those before it that are tokens, of which a window takes the nearest, and always its
// own, so that rows of padding are finite. Keys are kept rotated. A layer with a kv_source (DecoderLayer)
// takes that layer's keys, values and past, and nobody takes its present (graph/attention_caches.h). Operator
// set 24; the mask is one of true and false. Matrices have the axes [in, out]; an embedding that is the head,
// too, stays one tensor, which a Gemm takes as it lies.
#pragma once

#include <string>
#include <vector>

#include "base/json/json_file.h"
#include "formats/checkpoint/decoder_config.h"
#include "graph/graph.h"
#include "models/model_weights.h"

namespace crumb::models {

/// Tensor names are those of transformers' ...ForCausalLM. Throws Error as DecoderConfig::parse and ModelWeights::add do.
graph::Graph build_decoder(ModelWeights& weights, const JsonFile& config);
/// Of a configuration that is parsed. Throws Error as ModelWeights::add does, and where a kv_source is no
/// earlier layer with keys and values of its own, or projections are fused.
graph::Graph build_decoder(ModelWeights& weights, DecoderConfig config);

/// The constants of such a graph that hold the frequencies of a configuration's rotation; equal ones are one.
std::string frequencies_name(std::size_t rotation);
std::string long_frequencies_name(std::size_t rotation);

/// The values that the layers of such a graph give, float32 [batch, sequence, hidden_size], from the first to the last.
std::vector<std::string> layer_outputs(const graph::Graph& decoder);

}  // namespace crumb::models

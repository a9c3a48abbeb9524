// The configuration of the decoder in a model that reads images, too: Gemma 3, Mistral 3, Qwen 2-VL, 2.5-VL
// and 3-VL.
//
// A prompt of text alone has, in each of the axes of Qwen's positions, the same position, so that these
// rotate as plain ones do.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace crumb {

/// Makes config.json of that decoder alone (transformers' Gemma3ForCausalLM, MistralForCausalLM,
/// Qwen2ForCausalLM, Qwen3ForCausalLM), with every default of the larger model's class written out. `config`
/// has the text's keys in "text_config", or, as Qwen's first files have it, beside the others. `has_head`:
/// the checkpoint holds a matrix for the head. Nothing where config is of no such model, or its text is of
/// another kind than the model's usual one.
std::optional<nlohmann::json> text_config_of(const nlohmann::json& config, bool has_head);

/// "gemma3 (of gemma3_text), mistral3 (of mistral), ...": the models, and of which kind their text must be.
std::string known_text_models();

}  // namespace crumb

// What a decoder's tensors are called, whatever was put around it when it was saved.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace crumb {

/// The name that transformers' ...ForCausalLM gives to a decoder's tensor:
/// "model.layers.0.mlp.up_proj.weight", "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight".
/// Nothing where the name is none of a decoder's layers, embeddings, last norm or head.
///
/// In front of these may stand, in any number and order, what wraps a decoder: `model` or nothing (a decoder
/// without its head, as Qwen3-Embedding's), `language_model` and `text_model` (models that read images, too),
/// `_orig_mod` (torch.compile), `module` (data parallelism), `base_model.model` (PEFT) and
/// `_fsdp_wrapped_module`; `_orig_mod`, `_fsdp_wrapped_module` and `_checkpoint_wrapped_module` also stand
/// further behind, where a part of the network was wrapped.
std::optional<std::string> decoder_name(std::string_view stored);

/// The name of what a tensor outside of a decoder belongs to, with its wrappers: "model.vision_tower" of
/// "model.vision_tower.patch_embedding.weight".
std::string part_beside_decoder(std::string_view stored);

}  // namespace crumb

"""Tiny models that read images, too, with random weights, and the logits that transformers computes of a text alone."""

import json
from pathlib import Path

import tiny_decoders as tiny
import torch
import transformers
from safetensors.torch import load_file, save_file

TEXT = {"vocab_size": 280, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 258}  # fmt: skip
TOWER = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28,
    "patch_size": 14}  # fmt: skip
VISUAL = {"hidden_size": 16, "intermediate_size": 16, "depth": 1, "num_heads": 2, "out_hidden_size": 48, "patch_size": 14}
TOKENS = {"image_token_id": 270, "video_token_id": 271, "vision_start_token_id": 272, "vision_end_token_id": 273}


def turning(theta, *sections, **more):
    return {"rope_type": "default", "mrope_section": list(sections), "rope_theta": theta, **more}


# Of each model_type: its class, and its configuration as transformers takes it.
KINDS = {
    "gemma3": ("Gemma3ForConditionalGeneration", {
        "text_config": {**TEXT, "head_dim": 16, "sliding_window": 6, "query_pre_attn_scalar": 24, "num_hidden_layers": 6},
        "vision_config": TOWER, "mm_tokens_per_image": 4, "image_token_index": 270, "boi_token_index": 271,
        "eoi_token_index": 272}),
    "mistral3": ("Mistral3ForConditionalGeneration", {
        "text_config": {**TEXT, "model_type": "mistral", "head_dim": 20, "sliding_window": None, "rms_norm_eps": 1e-5,
            "tie_word_embeddings": False},
        "vision_config": {**TOWER, "model_type": "pixtral", "head_dim": 8}, "image_token_index": 270,
        "tie_word_embeddings": False}),
    "qwen2_vl": ("Qwen2VLForConditionalGeneration", {
        "text_config": {**TEXT, "rope_parameters": turning(1e6, 2, 2, 2)},
        "vision_config": {"embed_dim": 16, "hidden_size": 48, "depth": 1, "num_heads": 2, "patch_size": 14}, **TOKENS}),
    "qwen2_5_vl": ("Qwen2_5_VLForConditionalGeneration", {
        "text_config": {**TEXT, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1,
            "rope_parameters": turning(1e5, 2, 2, 2)},
        "vision_config": {**VISUAL, "fullatt_block_indexes": [0]}, **TOKENS}),
    "qwen3_vl": ("Qwen3VLForConditionalGeneration", {
        "text_config": {**TEXT, "head_dim": 16, "rope_parameters": turning(5e6, 4, 2, 2, mrope_interleaved=True)},
        "vision_config": {**VISUAL, "deepstack_visual_indexes": [0], "num_position_embeddings": 16}, "tie_word_embeddings": True,
        **TOKENS}),
}  # fmt: skip
# What a text's architecture is called by itself.
CLASSES = {"gemma3": "Gemma3ForCausalLM", "mistral3": "MistralForCausalLM", "qwen2_vl": "Qwen2ForCausalLM",
    "qwen2_5_vl": "Qwen2ForCausalLM", "qwen3_vl": "Qwen3ForCausalLM"}  # fmt: skip
# Where released checkpoints keep the language model; transformers' own saving has one of these, its classes another.
PLACES = ("model.language_model.", "language_model.model.", "model.")


def make(kind, folder):
    """Writes such a model to `folder`; token ids, and their logits [tokens, vocabulary]."""
    name, keys = KINDS[kind]
    config = transformers.AutoConfig.for_model(kind, **keys)
    model = getattr(transformers, name)._from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    seed = 100 + list(KINDS).index(kind)
    tiny.draw(model, kind, seed)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tiny.write_tokenizer(folder)
    (folder / "preprocessor_config.json").write_text("{}")
    ids = tiny.tokens_of(seed)
    return ids, tiny.prefill(model, ids)


def move(folder, place):
    """Puts the language model's tensors under another name; those of the head go where it is put with them."""
    path = Path(folder) / "model.safetensors"
    moved = {}
    for name, tensor in load_file(path).items():
        for known in PLACES:
            rest = name.removeprefix(known)
            if rest != name and rest.split(".")[0] in ("embed_tokens", "layers", "norm"):
                name = place + rest
                break
        if name.endswith("lm_head.weight"):
            name = place.removesuffix("model.") + "lm_head.weight" if place.startswith("language") else "lm_head.weight"
        moved[name] = tensor
    save_file(moved, path, metadata={"format": "pt"})


def flatten(folder):
    """Writes config.json as Qwen's first files have it: the text's keys beside the others, and the old spelling of its
    positions."""
    path = Path(folder) / "config.json"
    config = json.loads(path.read_text())
    text = config.pop("text_config")
    rotation = text.pop("rope_parameters")
    text |= {"rope_theta": rotation["rope_theta"], "rope_scaling": {"type": "mrope", "mrope_section": rotation["mrope_section"]}}
    for key in ("model_type", "layer_types", "tie_word_embeddings", "dtype"):
        text.pop(key, None)
    path.write_text(json.dumps(config | text))

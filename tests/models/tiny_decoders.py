"""Tiny random decoders of every family that models/ builds, made by transformers, and what transformers makes of them.

Weights, gains of norms and biases are drawn so that nothing in a configuration is without effect, and scaled so that
logits have a standard deviation of 3.5 (before a soft cap).
"""

import dataclasses
import json
from pathlib import Path

import numpy as np

VOCABULARY, LENGTH, SHORT = 120, 24, 15
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
PHI = {"original_max_position_embeddings": 32, "partial_rotary_factor": 0.5, "num_hidden_layers": 3}


def long_factors(half):
    return {
        "rope_type": "longrope",
        "short_factor": [1 + 0.1 * k for k in range(half)],
        "long_factor": [2 + 0.5 * k for k in range(half)],
    }


@dataclasses.dataclass(frozen=True)
class Family:
    model_type: str
    config: dict
    wrong: tuple = ()  # edits of config.json, each of which must show in the logits


FAMILIES = {
    "llama": Family("llama", {"rope_theta": 500.0}, ({"rope_theta": 600.0}, {"rms_norm_eps": 0.1})),
    "llama-wide-heads": Family("llama", {"head_dim": 12, "attention_bias": True, "mlp_bias": True}, ({"rope_theta": 12000.0},)),
    "llama-one-head": Family("llama", {"num_key_value_heads": 1, "tie_word_embeddings": True}),
    "llama3": Family("llama", {"rope_scaling": LLAMA3, "rope_theta": 5000.0},
                     ({"rope_scaling": {**LLAMA3, "factor": 8.0}}, {"rope_scaling": {**LLAMA3, "high_freq_factor": 2.0}},
                      {"rope_scaling": None, "rope_parameters": None})),
    "llama-linear": Family("llama", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
                           ({"rope_scaling": {"rope_type": "linear", "factor": 2.1}},)),
    "llama-yarn": Family("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}},
                         ({"rope_scaling": {"rope_type": "linear", "factor": 4.0}},)),
    "mistral": Family("mistral", {"sliding_window": 7}, ({"sliding_window": 8}, {"sliding_window": 6}, {"sliding_window": None})),
    "qwen2": Family("qwen2", {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 2},
                    ({"layer_types": ["full_attention"] * 4}, {"sliding_window": 7})),
    "qwen2-tied": Family("qwen2", {"tie_word_embeddings": True}, ({"rope_theta": 9000.0},)),
    "qwen3": Family("qwen3", {"head_dim": 16, "attention_bias": True}, ({"rms_norm_eps": 0.1},)),
    "gemma2": Family("gemma2", {"head_dim": 10, "sliding_window": 7, "query_pre_attn_scalar": 7, "attn_logit_softcapping": 2.0,
                                "final_logit_softcapping": 12.0},
                     ({"attn_logit_softcapping": None}, {"final_logit_softcapping": 13.0}, {"query_pre_attn_scalar": 10},
                      {"sliding_window": 6}, {"hidden_activation": "gelu"})),
    "gemma3": Family("gemma3_text", {"head_dim": 12, "sliding_window": 5, "num_hidden_layers": 6, "query_pre_attn_scalar": 12,
                                     "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
                                     "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 3000.0},
                                                         "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}},
                     ({"sliding_window": 6}, {"layer_types": ["full_attention"] * 6})),
    "phi3": Family("phi3", {**PHI, "sliding_window": 9}, ({"partial_rotary_factor": 1.0}, {"sliding_window": 10})),
    "phi3-long": Family("phi3", {**PHI, "original_max_position_embeddings": 12, "rope_scaling": long_factors(2)},
                        ({"original_max_position_embeddings": 30},)),
    "phi3-short": Family("phi3", {**PHI, "rope_scaling": long_factors(2)}, ({"original_max_position_embeddings": 12},)),
    "smollm3": Family("smollm3", {"no_rope_layers": [1, 0, 1, 0]}, ({"no_rope_layers": [1, 1, 1, 0]}, {"rope_theta": 1000.0})),
    "olmo2": Family("olmo2", {"num_key_value_heads": 4}, ({"rms_norm_eps": 0.1},)),
}  # fmt: skip


def model_of(family: Family, seed=0):
    import torch
    import transformers

    own = {**SIZES, **family.config}
    config = transformers.AutoConfig.for_model(family.model_type, **own)
    config._attn_implementation = "eager"
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().float()
    plus_one = float(family.model_type.startswith("gemma"))
    with torch.no_grad():
        for name, values in model.named_parameters():
            if "norm" in name:
                values.copy_(1 - plus_one + 0.3 * torch.randn_like(values))
            elif values.dim() == 1:
                values.copy_(0.3 * torch.randn_like(values))
            else:
                gain = 2.0 if any(part in name for part in ("q_proj", "k_proj", "qkv_proj")) else 1.0
                values.copy_(gain * torch.randn_like(values) / values.shape[1] ** 0.5)
        model.tie_weights()
        cap, config.final_logit_softcapping = getattr(config, "final_logit_softcapping", None), None
        gains = model.model.norm.weight
        gains.copy_((gains + plus_one) * (3.5 / float(reference(model, tokens()).std())) - plus_one)
        config.final_logit_softcapping = cap
    return model


def tokens():
    return np.random.default_rng(5).integers(3, VOCABULARY, size=(2, LENGTH))


def reference(model, ids, mask=None, positions=None):
    """Float32 logits of all places, as generate() asks for them."""
    import torch

    given = torch.ones(ids.shape, dtype=torch.int64) if mask is None else torch.from_numpy(mask)
    places = torch.arange(ids.shape[1])[None].expand(*ids.shape) if positions is None else torch.from_numpy(positions)
    with torch.no_grad():
        return model(torch.from_numpy(ids), attention_mask=given, position_ids=places, use_cache=False).logits.numpy()


def save(model, folder: Path):
    model.save_pretrained(folder, safe_serialization=True)
    return folder


def edit(folder: Path, to: Path, changes: dict):
    """The checkpoint with another configuration."""
    to.mkdir()
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    config = json.loads((to / "config.json").read_text())
    config.update(changes)
    for key in ("rope_theta", "rope_scaling"):  # what transformers 5 saves is stronger than the old spelling
        if key in changes and isinstance(config.get("rope_parameters"), dict):
            if key == "rope_theta":
                config["rope_parameters"]["rope_theta"] = changes[key]
            elif changes[key]:
                config["rope_parameters"] = {"rope_theta": config["rope_parameters"].get("rope_theta"), **changes[key]}
                config.pop("rope_scaling")
    if "partial_rotary_factor" in changes and isinstance(config.get("rope_parameters"), dict):
        config["rope_parameters"]["partial_rotary_factor"] = changes["partial_rotary_factor"]
    (to / "config.json").write_text(json.dumps(config))
    return to

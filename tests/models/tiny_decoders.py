#!/usr/bin/env python3
"""Tiny decoders with random weights, a Hugging Face folder for each family, and what transformers computes with them.

    python tests/models/tiny_decoders.py FOLDER [NAME...]

FOLDER/NAME gets config.json (in the spelling of the published checkpoints), model.safetensors, tokenizer.json and
tokenizer_config.json, and beside them the reference: logits in float32 on the CPU with eager attention, as .npy files
named after the fields of Reference.

Norms' gains and biases are drawn too, scores are sharp, and the logits' standard deviation is about 4, so that what is
left out or off by one shows: VARIANTS has, for each decoder, edits that move the logits and some that must not.
"""

import copy
import json
import math
import random
import sys
import tempfile
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path

import numpy as np
import torch
import transformers
import transformers.utils.logging
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)  # the more the slower, for matrices as small as these

LENGTH = 24  # tokens of the reference, more than any window here
PREFIX = 12  # tokens of its shorter run
SHORTER = 17  # tokens of the second sequence in a batch
SPREAD = 4.0

# --- Configurations -----------------------------------------------------------------------------------------------

SIZES = {
    "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 280, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
    "hidden_act": "silu", "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 258, "torch_dtype": "float32",
    "initializer_range": 0.02, "attention_dropout": 0.0, "use_cache": True,
}  # fmt: skip
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **SIZES, "rope_theta": 10000.0,
    "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32}  # fmt: skip
GEMMA = {
    **{key: value for key, value in SIZES.items() if key != "hidden_act"}, "hidden_activation": "gelu_pytorch_tanh",
    "hidden_act": "relu", "head_dim": 16, "query_pre_attn_scalar": 24, "sliding_window": 6, "attention_bias": False,
}  # fmt: skip
PHI3 = {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", **SIZES, "hidden_size": 64, "rope_theta": 10000.0,
    "partial_rotary_factor": 0.75, "sliding_window": None, "tie_word_embeddings": False}  # fmt: skip
LONGROPE = {"type": "longrope", "short_factor": [1.0, 1.05, 1.1, 1.3, 1.7, 2.5], "long_factor": [1.1, 1.4, 2, 4, 7, 12.0]}

CONFIGS = {
    "llama": LLAMA,
    "llama_tied": {**LLAMA, "tie_word_embeddings": True, "head_dim": 16, "num_key_value_heads": 1,
        "attention_bias": True, "mlp_bias": True},
    "llama3": {**LLAMA, "rope_scaling": LLAMA3, "head_dim": 16, "num_key_value_heads": 4},
    "mistral": {"architectures": ["MistralForCausalLM"], "model_type": "mistral", **SIZES, "rope_theta": 10000.0,
        "head_dim": 20, "sliding_window": 5, "tie_word_embeddings": False},
    "qwen2": {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", **SIZES, "rope_theta": 1000000.0,
        "use_sliding_window": False, "sliding_window": 5, "max_window_layers": 2, "tie_word_embeddings": True},
    "qwen2_windows": {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", **SIZES, "rope_theta": 10000.0,
        "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 2, "num_hidden_layers": 4,
        "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 1.5,
            "beta_slow": 0.1},
        "tie_word_embeddings": False},
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", **SIZES, "head_dim": 16,
        "rope_theta": 1000000.0, "attention_bias": False, "use_sliding_window": False, "sliding_window": None,
        "max_window_layers": 3, "tie_word_embeddings": True},
    "gemma2": {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", **GEMMA, "num_hidden_layers": 4,
        "rope_theta": 10000.0, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 12.0},
    "gemma3": {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", **GEMMA, "num_hidden_layers": 6,
        "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "sliding_window_pattern": 6, "attn_logit_softcapping": None, "final_logit_softcapping": None},
    "phi3": {**PHI3, "sliding_window": 7, "rope_scaling": None, "original_max_position_embeddings": 128},
    "phi3_short": {**PHI3, "rope_scaling": LONGROPE, "original_max_position_embeddings": 32},
    "phi3_long": {**PHI3, "rope_scaling": LONGROPE, "original_max_position_embeddings": 16},
    "smollm3": {"architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3", **SIZES, "num_hidden_layers": 4,
        "rope_theta": 2000000.0, "rope_scaling": None, "no_rope_layers": [1, 0, 1, 0], "no_rope_layer_interval": 4,
        "use_sliding_window": False, "sliding_window": None, "attention_bias": False, "mlp_bias": False},
    "olmo2": {"architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2", **SIZES, "rope_theta": 500000.0,
        "rope_scaling": None, "attention_bias": False, "tie_word_embeddings": False},
}  # fmt: skip

# --- Variants -----------------------------------------------------------------------------------------------------


@dataclass
class Variant:
    """An edit of a checkpoint: keys of config.json (None: without the key), and a function over its tensors."""

    name: str
    config: dict = field(default_factory=dict)
    tensors: object = None
    moves: bool = True  # False: the logits stay as they are


def each(suffix, change):
    """A function over tensors: change(tensor) for each whose name ends so."""

    def edit(tensors):
        for name in tensors:
            if name.endswith(suffix):
                tensors[name] = change(tensors[name]).contiguous()

    return edit


def both(*edits):
    def edit(tensors):
        for one in edits:
            one(tensors)

    return edit


def swap_halves(tensor):
    return torch.cat(tensor.chunk(2)[::-1])


def interleaved(heads, tensor):
    """The rows of q or k in the order for a rotary embedding that pairs neighbours."""
    return tensor.view(heads, 2, tensor.shape[0] // heads // 2, -1).transpose(1, 2).reshape(tensor.shape)


def unscaled(tensors):
    """The embedding without its factor, the head as it is."""
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    tensors["model.embed_tokens.weight"] /= math.sqrt(tensors["model.embed_tokens.weight"].shape[1])


def key_first(tensors):
    """Fused rows of queries, keys, values taken for keys, queries, values."""
    each("qkv_proj.weight", lambda t: torch.cat([t[32:64], t[:32], t[64:]]))(tensors)


GROUPS = Variant("query heads of the other key-value head", tensors=both(
    each("k_proj.weight", swap_halves), each("v_proj.weight", swap_halves)))  # fmt: skip
PAIRS = Variant("rotary pairs of neighbours", tensors=both(
    each("q_proj.weight", partial(interleaved, 4)), each("k_proj.weight", partial(interleaved, 2))))  # fmt: skip
NO_QK_NORM = Variant("no norm gains of q and k", tensors=both(
    each("q_norm.weight", torch.ones_like), each("k_norm.weight", torch.ones_like)))  # fmt: skip
THETA = Variant("theta", {"rope_theta": 50000.0})
EPSILON = Variant("epsilon", {"rms_norm_eps": 0.1})
GELU = Variant("activation", {"hidden_act": "gelu"})
FINAL_NORM = Variant("no gain of the last norm", tensors=each("model.norm.weight", torch.ones_like))
COMMON = [THETA, EPSILON, GELU, FINAL_NORM, GROUPS, PAIRS]


def rope(scaling, **changes):
    return {"rope_scaling": {**scaling, **changes}}


def windows(size):
    return [Variant("window one less", {"sliding_window": size - 1}),
        Variant("window one more", {"sliding_window": size + 1}), Variant("wide window", {"sliding_window": 64})]  # fmt: skip


def no_biases(*parts):
    return [Variant(f"no bias of {part}", tensors=each(f"{part}_proj.bias", torch.zeros_like)) for part in parts]


GEMMA_COMMON = [
    EPSILON, GROUPS, PAIRS, *windows(6),
    Variant("activation", {"hidden_activation": "silu"}),
    Variant("scale by the head's size", {"query_pre_attn_scalar": 16}),
    Variant("gains without the one", tensors=each("norm.weight", lambda t: t - 1)),
    Variant("no factor of the embedding", {"tie_word_embeddings": False}, unscaled),
    Variant("hidden_act is not read", {"hidden_act": "silu"}, moves=False),
]  # fmt: skip
QWEN2_YARN = CONFIGS["qwen2_windows"]["rope_scaling"]
VARIANTS = {
    "llama": COMMON,
    "llama_tied": [THETA, EPSILON, GELU, FINAL_NORM, *no_biases("q", "v", "o", "gate", "up", "down"),
        Variant("no theta means 10000", {"rope_theta": None}, moves=False)],
    "llama3": [THETA, EPSILON, FINAL_NORM, Variant("no scaling", {"rope_scaling": None}),
        Variant("factor", rope(LLAMA3, factor=4.0)), Variant("low factor", rope(LLAMA3, low_freq_factor=2.0)),
        Variant("high factor", rope(LLAMA3, high_freq_factor=8.0)),
        Variant("length before", rope(LLAMA3, original_max_position_embeddings=64)),
        Variant("linear scaling", {"rope_scaling": {"rope_type": "linear", "factor": 8.0}})],
    "mistral": [*COMMON, *windows(5), Variant("no window means 4096", {"sliding_window": None}),
        Variant("layer_types make it a ministral",
            {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})],
    "qwen2": [*COMMON, *no_biases("q", "v"), Variant("windows from layer 2", {"use_sliding_window": True}),
        Variant("the window is not used", {"sliding_window": 7, "max_window_layers": 1}, moves=False)],
    "qwen2_windows": [*COMMON, *windows(5), Variant("first layer with a window", {"max_window_layers": 1}),
        Variant("no windows", {"use_sliding_window": False}),
        Variant("no scaling", {"rope_scaling": None}), Variant("factor", rope(QWEN2_YARN, factor=8.0)),
        Variant("attention factor", rope(QWEN2_YARN, attention_factor=1.0)),
        Variant("beta_fast", rope(QWEN2_YARN, beta_fast=32.0)), Variant("beta_slow", rope(QWEN2_YARN, beta_slow=1.0)),
        Variant("whole dimensions", rope(QWEN2_YARN, truncate=False)),
        Variant("length before", rope(QWEN2_YARN, original_max_position_embeddings=16)),
        Variant("layer_types say the same",
            {"layer_types": ["full_attention"] * 2 + ["sliding_attention"] * 2, "max_window_layers": 9}, moves=False)],
    "qwen3": [*COMMON, NO_QK_NORM],
    "gemma2": [THETA, *GEMMA_COMMON,
        Variant("no cap of scores", {"attn_logit_softcapping": 1e6}),
        Variant("no cap of logits", {"final_logit_softcapping": 1e6}),
        Variant("caps that were left out mean 50 and 30", {"attn_logit_softcapping": None, "final_logit_softcapping": None}),
        Variant("odd layers have windows", {"layer_types": ["full_attention", "sliding_attention"] * 2}),
        Variant("tied says nothing new", {"tie_word_embeddings": True}, moves=False)],
    "gemma3": [Variant("theta", {"rope_theta": 50000.0}), Variant("local theta", {"rope_local_base_freq": 50000.0}),
        Variant("one theta", {"rope_local_base_freq": 1000000.0}), *GEMMA_COMMON, NO_QK_NORM,
        Variant("no scaling", {"rope_scaling": None}), Variant("pattern", {"sliding_window_pattern": 3}),
        Variant("cap of logits", {"final_logit_softcapping": 12.0}),
        Variant("the cap of scores is not applied", {"attn_logit_softcapping": 3.0}, moves=False),
        Variant("layer_types say the same",
            {"layer_types": ["sliding_attention"] * 5 + ["full_attention"], "sliding_window_pattern": 2}, moves=False)],
    "phi3": [THETA, EPSILON, GELU, FINAL_NORM, *windows(7), Variant("no window", {"sliding_window": None}),
        Variant("all dimensions turn", {"partial_rotary_factor": 1.0}),
        Variant("up before gate", tensors=each("gate_up_proj.weight", swap_halves)),
        Variant("keys before queries", tensors=key_first)],
    "phi3_short": [THETA, FINAL_NORM, Variant("no scaling", {"rope_scaling": None}),
        Variant("long factors", {"original_max_position_embeddings": 16}),
        Variant("attention factor", rope(LONGROPE, attention_factor=1.0)),
        Variant("attention factor of another length", {"max_position_embeddings": 64}),
        Variant("long factors are not used", rope(LONGROPE, long_factor=[9.0] * 6), moves=False),
        Variant("its length wins over the scaling's", rope(LONGROPE, original_max_position_embeddings=8), moves=False)],
    "phi3_long": [THETA, FINAL_NORM, Variant("short factors", rope(LONGROPE, long_factor=LONGROPE["short_factor"])),
        Variant("attention factor", rope(LONGROPE, attention_factor=1.0)),
        Variant("one token more is short", {"original_max_position_embeddings": LENGTH}),
        Variant("short factors are not used", rope(LONGROPE, short_factor=[9.0] * 6), moves=False)],
    "smollm3": [*COMMON, Variant("all layers turn", {"no_rope_layers": [1, 1, 1, 1]}),
        Variant("the other layers turn", {"no_rope_layers": [0, 1, 0, 1]}),
        Variant("every fourth does not", {"no_rope_layers": None}),
        Variant("windows where nothing turns", {"use_sliding_window": True, "sliding_window": 5}),
        Variant("no theta means 2000000", {"rope_theta": None}, moves=False),
        Variant("every second does not", {"no_rope_layers": None, "no_rope_layer_interval": 2}, moves=False)],
    "olmo2": [*COMMON, NO_QK_NORM,
        Variant("no gain behind attention", tensors=each("post_attention_layernorm.weight", torch.ones_like)),
        Variant("no gain behind the network", tensors=each("post_feedforward_layernorm.weight", torch.ones_like))],
}  # fmt: skip


# --- Checkpoints and references -----------------------------------------------------------------------------------


@dataclass
class Reference:
    """What transformers computes. Logits are float32 [tokens, vocabulary], with a batch before in *_padded."""

    ids: np.ndarray  # int64 [LENGTH]
    prefill: np.ndarray  # all tokens at once
    prefix: np.ndarray  # the first PREFIX tokens at once: other than prefill's only where the length switches factors
    steps: np.ndarray  # the tokens from steps_from on, one at a time behind a cache of those before
    steps_from: np.ndarray  # int64 []
    left_ids: np.ndarray  # int64 [2, LENGTH]: ids, and padding before the first SHORTER of other tokens
    left_mask: np.ndarray  # int64 [2, LENGTH]: 1 where there is a token. Elsewhere the logits mean nothing
    left_positions: np.ndarray  # int64 [2, LENGTH], as generate() gives them: 0 where there is padding
    left_padded: np.ndarray
    right_ids: np.ndarray  # the same with the padding behind
    right_mask: np.ndarray
    right_positions: np.ndarray
    right_padded: np.ndarray


def seed_of(name):
    return 1 + list(CONFIGS).index(name)


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()


def run(model, ids, **keywords):
    with torch.no_grad():
        return model(input_ids=torch.as_tensor(ids), **keywords)


def prefill(model, ids):
    return run(model, ids[None], attention_mask=torch.ones(1, len(ids), dtype=torch.long)).logits[0].numpy()


def last_norm(model):
    """Of a decoder, or of the language model in one that reads images, too."""
    return getattr(model.model, "language_model", model.model).norm


def draw(model, name, seed=None):
    """Draws all parameters anew, and scales the last norm so that the logits' standard deviation is SPREAD. `name`: of
    CONFIGS, or another with a seed of its own."""
    seed = seed_of(name) if seed is None else seed
    generator = torch.Generator().manual_seed(seed)
    gemma = name.startswith("gemma")

    def normal(shape):
        return torch.randn(shape, generator=generator)

    with torch.no_grad():
        for parameter, tensor in model.named_parameters():
            if "norm" in parameter:
                gain = (1 + 0.3 * normal(tensor.shape)).clamp(min=0.3)
                tensor.copy_(gain - 1 if gemma else gain)
            elif parameter.endswith(".bias"):
                tensor.copy_(0.4 * normal(tensor.shape))
            elif "embed" in parameter:
                tensor.copy_(normal(tensor.shape) * (tensor.shape[1] ** -0.5 if gemma else 1))
            else:
                sharp = 1.5 if "q_proj" in parameter or "k_proj" in parameter or "qkv" in parameter else 1.1
                tensor.copy_(sharp * normal(tensor.shape) / math.sqrt(tensor.shape[-1]))
    cap = getattr(model.config, "final_logit_softcapping", None)
    model.config.final_logit_softcapping = None
    spread = prefill(model, tokens_of(seed)).std()
    model.config.final_logit_softcapping = cap
    with torch.no_grad():
        gain = last_norm(model).weight
        gain.copy_((gain + 1) * (SPREAD / spread) - 1 if gemma else gain * (SPREAD / spread))


def tokens_of(seed, count=LENGTH):
    return np.random.default_rng([seed, count]).integers(0, 256, count)


def tokens(name, count=LENGTH):
    return tokens_of(seed_of(name), count)


def write_tokenizer(folder):
    """Bytes, and after them three special tokens and some merges of letters."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<s>", "</s>", "<pad>"]
    merges = [tuple(pair) for pair in "he in er an th on re at en or es is it al ar st nd to of ed ou".split()]
    vocabulary = [*alphabet, *special, *("".join(pair) for pair in merges)]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(vocabulary)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1))


def reference(model, name):
    """The Reference of a model. Asserts what it promises: the spread, and that steps give what all tokens at once do."""
    config = CONFIGS[name]
    ids = tokens(name)
    logits = prefill(model, ids)
    assert logits.std() >= 3, f"{name}: the logits' standard deviation is {logits.std()}"
    # Keys in a cache keep the angles that they were turned by, so steps begin where the long factors have been chosen.
    start = config["original_max_position_embeddings"] + 1 if name == "phi3_long" else 1
    done = run(model, ids[None, :start], use_cache=True)
    steps = []
    for at in range(start, LENGTH):
        done = run(model, ids[None, at : at + 1], past_key_values=done.past_key_values, use_cache=True)
        steps.append(done.logits[0, 0].numpy())
    steps = np.stack(steps)
    apart = np.abs(steps - logits[start:]).max()
    assert apart <= 1e-4, f"{name}: steps are {apart} from all tokens at once"
    found = {"ids": ids, "prefill": logits, "prefix": prefill(model, ids[:PREFIX]), "steps": steps}
    found["steps_from"] = np.array(start)
    second = tokens(name, SHORTER)
    for side in ("left", "right"):
        pad = (LENGTH - SHORTER, 0) if side == "left" else (0, LENGTH - SHORTER)
        batch = np.stack([ids, np.pad(second, pad, constant_values=config["pad_token_id"])])
        mask = np.stack([np.ones_like(ids), np.pad(np.ones_like(second), pad)])
        positions = np.where(mask == 1, mask.cumsum(1) - 1, 0)
        keywords = {"attention_mask": torch.tensor(mask), "position_ids": torch.tensor(positions)}
        padded = run(model, batch, **keywords).logits.numpy()
        assert np.abs(padded[0] - logits).max() <= 1e-4
        found |= {f"{side}_ids": batch, f"{side}_mask": mask, f"{side}_positions": positions, f"{side}_padded": padded}
    return Reference(**found)


def make(name, folder):
    """Writes the checkpoint `name` of CONFIGS to `folder`; its Reference, which is also written there."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIGS[name], indent=1))
    write_tokenizer(folder)
    config = transformers.AutoConfig.from_pretrained(folder, attn_implementation="eager")
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    (folder / "config_new.json").write_text(model.config.to_json_string())
    draw(model, name)
    tensors = {key: tensor.detach().clone() for key, tensor in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        del tensors["lm_head.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    found = reference(load(folder), name)
    for item in fields(found):
        np.save(folder / f"{item.name}.npy", getattr(found, item.name))
    return found


def draw_layer_sizes(name, seed):
    """Keys of config.json: lists of sizes, which differ from layer to layer."""
    generator, layers = random.Random(seed), CONFIGS[name]["num_hidden_layers"]
    while True:
        shared = [generator.randint(1, 3) for _ in range(layers)]
        own = [generator.randint(1, 3) * heads for heads in shared]
        inner = [generator.randint(5, 90) for _ in range(layers)]
        if min(map(len, map(set, (shared, own, inner)))) > 1:
            depth = CONFIGS[name].get("head_dim") or generator.choice([8, 16])
            heads = {"num_attention_heads": own, "num_key_value_heads": shared, "head_dim": depth}
            return {"intermediate_size": inner, **heads}


def unequal_model(name, sizes):
    """transformers' network with layers of these sizes, which none of its classes has: each layer is made of a
    configuration of its own."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(CONFIGS[name] | {"head_dim": sizes["head_dim"]}))
        config = transformers.AutoConfig.from_pretrained(folder, attn_implementation="eager")
    make = transformers.AutoModelForCausalLM.from_config
    model = make(config, attn_implementation="eager", dtype=torch.float32)
    for index, layer in enumerate(model.model.layers):
        own = copy.deepcopy(model.config)
        for key, value in sizes.items():
            setattr(own, key, value[index] if isinstance(value, list) else value)
        model.model.layers[index] = type(layer)(own, index)
    return model.eval()


def make_unequal(name, folder, seed):
    """Writes a checkpoint like `name` of CONFIGS whose layers have different sizes to `folder`; the model, drawn."""
    sizes = draw_layer_sizes(name, seed)
    model = unequal_model(name, sizes)
    draw(model, name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIGS[name] | sizes, indent=1))
    write_tokenizer(folder)
    tensors = {key: tensor.detach().clone() for key, tensor in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        del tensors["lm_head.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return model


def edited(folder, variant, target):
    """Writes the checkpoint of `folder` as a variant has it to `target`."""
    target = Path(target)
    target.mkdir(parents=True, exist_ok=True)
    config = json.loads((Path(folder) / "config.json").read_text()) | variant.config
    config = {key: value for key, value in config.items() if value is not None or key not in variant.config}
    (target / "config.json").write_text(json.dumps(config, indent=1))
    tensors = load_file(Path(folder) / "model.safetensors")
    if variant.tensors:
        variant.tensors(tensors)
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    return target


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    for name in sys.argv[2:] or CONFIGS:
        make(name, Path(sys.argv[1]) / name)


def write_texts(folder):
    """train.txt and valid.txt: words in an order of chance, to train and to measure by."""
    words = "How quickly daft jumping zebras vex pack my box with five dozen liquor jugs".split()
    for seed, name, count in ((0, "train.txt", 600), (1, "valid.txt", 60)):
        (folder / name).write_text(" ".join(random.Random(seed).choices(words, k=count)) + "\n")


if __name__ == "__main__":
    main()

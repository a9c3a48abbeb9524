"""Tiny checkpoints of every architecture that goes to GGUF, with rows that its blocks divide."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

MODELS = Path(__file__).resolve().parents[2] / "models"
spec = importlib.util.spec_from_file_location("tiny_decoders", MODELS / "tiny_decoders.py")
tiny_decoders = sys.modules["tiny_decoders"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tiny_decoders)

SIZES = {
    "vocab_size": 288,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 256,
    "eos_token_id": 257,
    "pad_token_id": 258,
}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64}  # fmt: skip
LONGROPE = {"rope_type": "longrope", "short_factor": [1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 1.7, 2.5],
    "long_factor": [1.1, 1.4, 2.0, 3.0, 4.0, 6.0, 7.0, 12.0]}  # fmt: skip
DIVISORS = [2.0, 1.0, 1.5, 1.2, 3.0, 5.0, 2.0, 7.0]
FAMILIES = {
    "llama": ("llama", {"rope_theta": 500.0}),
    "llama-tied": ("llama", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    "llama-biases": ("llama", {"head_dim": 32, "attention_bias": True, "mlp_bias": True}),
    "llama3": ("llama", {"head_dim": 32, "rope_scaling": LLAMA3, "rope_theta": 10000.0}),
    **{f"llama3-{number}": ("llama", {"head_dim": 32, "rope_scaling": {"rope_type": "llama3", "factor": factor, "low_freq_factor": low,
       "high_freq_factor": high, "original_max_position_embeddings": original}, "rope_theta": 10000.0})
       for number, (factor, low, high, original) in enumerate([(2.5, 1.0, 2.0, 32), (32.0, 0.5, 8.0, 100), (4.0, 1.0, 1.01, 64)])},
    "llama-divisors": ("llama", {"rope_scaling": {"rope_type": "longrope", "short_factor": DIVISORS, "long_factor": DIVISORS, "factor": 1.0,
                       "attention_factor": 1.0, "original_max_position_embeddings": 128}}),
    "llama-linear": ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    "mistral": ("mistral", {"sliding_window": None, "head_dim": 16}),
    "qwen2": ("qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("qwen3", {"head_dim": 128}),
    "gemma2": ("gemma2", {"head_dim": 32, "sliding_window": 7, "query_pre_attn_scalar": 32, "attn_logit_softcapping": 3.0,
                          "final_logit_softcapping": 12.0}),
    "gemma3": ("gemma3_text", {"head_dim": 32, "sliding_window": 5, "num_hidden_layers": 6, "query_pre_attn_scalar": 32}),
    "phi3": ("phi3", {"original_max_position_embeddings": 128, "partial_rotary_factor": 0.5, "sliding_window": None}),
    "qwen2-yarn": ("qwen2", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}}),
    "qwen3-yarn": ("qwen3", {"head_dim": 128, "rope_scaling": {"rope_type": "yarn", "factor": 2.0, "attention_factor": 1.5,
                   "original_max_position_embeddings": 64}}),
    "phi3-long": ("phi3", {"original_max_position_embeddings": 16, "sliding_window": None, "rope_scaling": LONGROPE}),
    # llama.cpp's contexts are multiples of 256, and the context alone chooses its factors.
    "phi3-short": ("phi3", {"original_max_position_embeddings": 512, "max_position_embeddings": 1024, "sliding_window": None,
                   "rope_scaling": LONGROPE}),
    "olmo2": ("olmo2", {"num_key_value_heads": 4}),
    "smollm3": ("smollm3", {"num_hidden_layers": 4, "no_rope_layers": [1, 1, 1, 0]}),
}  # fmt: skip
# The decoder of tiny_decoders.py that is drawn as one of another name here.
ALIKE = {"qwen2-yarn": "qwen2", "qwen3-yarn": "qwen3", "phi3-long": "phi3", "phi3-short": "phi3", "llama-tied": "llama_tied", "llama-biases": "llama_tied", "llama-linear": "llama", "llama-divisors": "llama",
         **{f"llama3-{number}": "llama3" for number in range(3)}}  # fmt: skip


def with_metadata(source, target, changes):
    """The GGUF file with other metadata, keys without the architecture's name: numbers as float32, naturals as uint32."""
    gguf = pytest.importorskip("gguf")
    reader = gguf.GGUFReader(source)
    types = gguf.GGUFValueType
    architecture = reader.fields["general.architecture"].contents()
    values = {name: (field.contents(), field.types) for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    for key, value in changes.items():
        kind = {bool: types.BOOL, int: types.UINT32, float: types.FLOAT32, str: types.STRING}[type(value)]
        values[f"{architecture}.{key}"] = (value, [kind])
    writer = gguf.GGUFWriter(target, architecture)
    for name, (value, kinds) in values.items():
        if name != "general.architecture":
            writer.add_key_value(name, value, kinds[0], sub_type=kinds[-1] if kinds[0] == types.ARRAY else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data), raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_folder(folder, name, **sizes):
    """A model of random weights with sharp logits, in which nothing is without effect, and a tokenizer."""
    model_type, changes = FAMILIES[name]
    config = transformers.AutoConfig.for_model(model_type, **{**SIZES, **changes, **sizes})
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().float()
    tiny_decoders.draw(model, ALIKE.get(name, name))
    model.save_pretrained(folder)
    tiny_decoders.write_tokenizer(folder)
    return folder

"""Tiny decoders of the Llama kind as Hugging Face folders, and what language models are run on: texts, conversations, and
the inputs of a decoder's graph."""

import json

import numpy as np

from outputs.checkpoint import write_safetensors

HIDDEN, INNER, HEADS, KEY_HEADS, HEAD, LAYERS, POSITIONS = 64, 96, 4, 2, 32, 2, 128
SPECIAL = ["<s>", "</s>", "<pad>"]
MERGES = ["he", "in", "er", "an", "th", "on", "re", "at", "en", "or", "es", "is", "it", "Ġt", "Ġa", "Ġb"]
TEMPLATE = (
    "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
)
WORDS = "bread is baked at night and rivers run to the sea when it rains on other towns by then".split()


def letters():
    """The characters that stand for the bytes 0 to 255 in byte-level vocabularies, by their code points."""
    printed = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = 256 - len(printed)
    return [chr(code) for code in (*printed, *range(256, 256 + others))]


def write_tokenizer(folder):
    """Bytes, three special tokens and some merges; the number of tokens."""
    tokens = {token: id for id, token in enumerate([*letters(), *SPECIAL, *MERGES])}
    added = [{"id": tokens[token], "content": token, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for token in SPECIAL]  # fmt: skip
    bytes_of = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": tokens, "merges": [list(pair) for pair in MERGES]}
    made = {"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": bytes_of,
            "post_processor": None, "decoder": bytes_of, "model": model}  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(made, indent=1))
    config = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1))
    return tokens


def tensors_of(rng, size, tied):
    """Scores and logits are sharp, so that little is needed to change an answer."""

    def matrix(rows, columns, sharp=1.1):
        return (sharp * rng.normal(0, columns**-0.5, (rows, columns))).astype(np.float32)

    def gain():
        return np.maximum(1 + 0.3 * rng.normal(0, 1, HIDDEN), 0.3).astype(np.float32)

    # Of a head that is the table, tokens would answer with themselves if rows were as large as what layers add to them.
    tensors = {"model.embed_tokens.weight": rng.normal(0, 0.1 if tied else 1, (size, HIDDEN)).astype(np.float32)}
    for layer in range(LAYERS):
        name = f"model.layers.{layer}"
        tensors |= {
            f"{name}.input_layernorm.weight": gain(),
            f"{name}.self_attn.q_proj.weight": matrix(HEADS * HEAD, HIDDEN, 1.5),
            f"{name}.self_attn.k_proj.weight": matrix(KEY_HEADS * HEAD, HIDDEN, 1.5),
            f"{name}.self_attn.v_proj.weight": matrix(KEY_HEADS * HEAD, HIDDEN),
            f"{name}.self_attn.o_proj.weight": matrix(HIDDEN, HEADS * HEAD),
            f"{name}.post_attention_layernorm.weight": gain(),
            f"{name}.mlp.gate_proj.weight": matrix(INNER, HIDDEN),
            f"{name}.mlp.up_proj.weight": matrix(INNER, HIDDEN),
            f"{name}.mlp.down_proj.weight": matrix(HIDDEN, INNER),
        }
    tensors["model.norm.weight"] = gain() * np.float32(2.5 if tied else 1)
    return tensors if tied else tensors | {"lm_head.weight": matrix(size, HIDDEN, 2)}


def write_decoder(folder, rng, tied):
    folder.mkdir()
    tokens = write_tokenizer(folder)
    ids = {f"{name}_token_id": tokens[token] for name, token in zip(("bos", "eos", "pad"), SPECIAL, strict=True)}
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64}  # fmt: skip
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KEY_HEADS, "head_dim": HEAD,
        "vocab_size": len(tokens), "max_position_embeddings": POSITIONS, "rms_norm_eps": 1e-5, "hidden_act": "silu",
        "rope_theta": 10000.0, "rope_scaling": None if tied else scaling, "attention_bias": False, "mlp_bias": False,
        "tie_word_embeddings": tied, "torch_dtype": "float32", **ids,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    write_safetensors(folder / "model.safetensors", tensors_of(rng, len(tokens), tied))
    return tokens


def write_graph_inputs(folder, rng, size):
    """As `crumb run` takes them: 5 tokens behind 3 whose keys and values are drawn."""
    before, now = 3, 5
    folder.mkdir()
    np.save(folder / "input_ids.npy", rng.integers(0, size, (1, now)))
    np.save(folder / "attention_mask.npy", np.ones((1, before + now), np.int64))
    np.save(folder / "position_ids.npy", np.arange(before, before + now)[None])
    for layer in range(LAYERS):
        for part in ("key", "value"):
            past = rng.normal(0, 1, (1, KEY_HEADS, before, HEAD)).astype(np.float32)
            np.save(folder / f"past_key_values.{layer}.{part}.npy", past)


def write_decoders(folder, rng):
    """The folders decoder and tied (whose head is its table of embeddings), and what they are run on."""
    for name in ("decoder", "tied"):
        tokens = write_decoder(folder / name, rng, name == "tied")
    write_graph_inputs(folder / "decoder_inputs", rng, len(tokens))
    for name, count in (("train.txt", 300), ("valid.txt", 80)):
        (folder / name).write_text(" ".join(rng.choice(WORDS, count)) + "\n")
    turns = [("user", "What runs?"), ("assistant", "Rivers run."), ("user", "Where to?"), ("assistant", "To the sea.")]
    messages = [{"role": role, "content": content} for role, content in turns]
    (folder / "messages.json").write_text(json.dumps(messages[:3]))
    (folder / "chat.jsonl").write_text((json.dumps({"messages": messages}) + "\n") * 4)

"""Checkpoints of the Llama kind with random weights, of any size, and what a run takes of memory."""

import json
import resource
import struct
import subprocess

import numpy as np

LETTERS = "abcdefghijklmnopqrstuvwxyz .\n"


def write_llama(folder, hidden, inner, layers, vocabulary, positions=2048):
    """Random weights in bfloat16, a block of them again and again. Gives their number."""
    folder.mkdir()
    key_values = hidden // 8
    tensors = {"model.embed_tokens.weight": (vocabulary, hidden), "lm_head.weight": (vocabulary, hidden), "model.norm.weight": (hidden,)}
    for i in range(layers):
        name = f"model.layers.{i}."
        attention = {"q": (hidden, hidden), "k": (key_values, hidden), "v": (key_values, hidden), "o": (hidden, hidden)}
        tensors |= {f"{name}self_attn.{part}_proj.weight": shape for part, shape in attention.items()}
        mlp = {"gate": (inner, hidden), "up": (inner, hidden), "down": (hidden, inner)}
        tensors |= {f"{name}mlp.{part}_proj.weight": shape for part, shape in mlp.items()}
        tensors |= {f"{name}{norm}_layernorm.weight": (hidden,) for norm in ("input", "post_attention")}
    header, offset = {}, 0
    for name, shape in tensors.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = (np.random.default_rng(0).standard_normal(1 << 20) * 0.02).astype(np.float32).view(np.uint32) >> 16
    block = block.astype(np.uint16)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in tensors.items():
            left = int(np.prod(shape))
            if name.endswith("norm.weight"):
                file.write(np.full(left, 0x3F80, np.uint16).tobytes())
                continue
            while left:
                part = block[: min(left, len(block))]
                file.write(part.tobytes())
                left -= len(part)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "intermediate_size": inner,
              "num_hidden_layers": layers, "num_attention_heads": 8, "num_key_value_heads": 1, "vocab_size": vocabulary,
              "max_position_embeddings": positions, "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0,
              "tie_word_embeddings": False, "torch_dtype": "bfloat16"}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    letters = {letter: id for id, letter in enumerate(LETTERS)}
    (folder / "tokenizer.json").write_text(
        json.dumps({"model": {"type": "BPE", "vocab": letters, "merges": []}, "decoder": {"type": "Fuse"}})
    )
    return sum(int(np.prod(shape)) for shape in tensors.values())


def peak_of(crumb_bin, work, *command):
    """Bytes that a process took at most."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    script = ("import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], capture_output=True, text=True); "
              "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, done.stderr)")  # fmt: skip
    done = subprocess.run(["python3", "-c", script, str(crumb_bin), *map(str, command)], capture_output=True, text=True, cwd=work)
    status, kibibytes, said = done.stdout.split(" ", 2)
    assert status == "0", said
    assert before >= 0
    return int(kibibytes) * 1024

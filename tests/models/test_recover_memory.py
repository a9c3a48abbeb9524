"""Recovery holds no float copy of its base: a step's peak memory is that of the codes, the adapter and what crosses layers."""

import json
import resource
import struct
import subprocess

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("engine")
LETTERS = "abcdefghijklmnopqrstuvwxyz .\n"


def write_llama(folder, hidden, inner, layers, vocabulary):
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
              "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0,
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


def recovery(crumb, crumb_bin, work, name, length, **shape):
    weights = write_llama(work / name, **shape)
    crumb("quantize", work / name, "-o", work / f"{name}.crumb", "--weights", "int2h:group=32", "--embeddings", "int4:group=32")
    rng = np.random.default_rng(1)
    (work / "text.txt").write_text("".join(rng.choice(list(LETTERS[:-1]), 4 * length)))
    kept = ["--teacher-logits", work / f"{name}.logits", "--top-k", 16]
    how = ["--data", work / "text.txt", "--length", length, "--batch", 1, "--steps", 1, "--threads", 1, "--recompute", "--rank", 4]
    crumb("recover", work / f"{name}.crumb", "--baseline", work / name, *kept, *how, "-o", work / "first")
    peak = peak_of(crumb_bin, work, "recover", work / f"{name}.crumb", *kept, *how, "-o", work / f"{name}_out")
    return weights, peak


def test_no_float_copy_of_the_base_is_held(crumb, crumb_bin, tmp_path):
    small, least = recovery(crumb, crumb_bin, tmp_path, "small", 32, hidden=64, inner=128, layers=2, vocabulary=64)
    large, peak = recovery(crumb, crumb_bin, tmp_path, "large", 32, hidden=1024, inner=3072, layers=10, vocabulary=2048)
    assert large - small > 100e6
    # Codes, scales, an adapter with its gradients and two moments, and some matrices that are decoded at a time.
    assert peak - least < 0.4 * 4 * (large - small), (peak, least)


@pytest.mark.slow
def test_a_billion_weights_recover_in_four_gigabytes(crumb, crumb_bin, tmp_path):
    weights, peak = recovery(crumb, crumb_bin, tmp_path, "billion", 128, hidden=2048, inner=5632, layers=22, vocabulary=32000)
    assert weights > 1e9
    assert peak < 4e9, peak

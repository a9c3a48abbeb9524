#!/usr/bin/env python3
"""Folders as bitsandbytes writes them, of weights drawn at random, and what its loaders make of them.

    PYTHONPATH=(of the environment clients/loaders) python bitsandbytes_folders.py FOLDER

FOLDER/four and FOLDER/eight get model.safetensors and config.json, FOLDER/*.values.safetensors the values. In a process of
its own: where bitsandbytes is installed, transformers and PEFT do other things.

What dequantizes four bits on a CPU with AVX-512 puts another absmax to rows that no whole number of blocks makes (0.50), so
that for these the values are those of the package's own formula, which its GPU code shares.
"""

import json
import logging
import sys
from pathlib import Path

logging.disable(logging.WARNING)

import bitsandbytes.functional as bnb  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute as by_formula  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

torch.set_num_threads(1)
TYPES = (torch.float32, torch.float16, torch.bfloat16)
STORED = (torch.uint8, torch.bfloat16, torch.float32)
BLOCKS = (32, 64, 64, 128, 256, 512)


def drawn(generator, shape, dtype):
    sizes = torch.tensor(generator.choice([1e-3, 1.0, 30.0], (shape[0], *[1] * (len(shape) - 1))))
    return (torch.tensor(generator.standard_normal(shape)) * sizes).to(dtype)


def add_four_bits(generator, name, tensors, values):
    dtype, kind, block = TYPES[generator.integers(3)], str(generator.choice(["nf4", "fp4"])), int(generator.choice(BLOCKS))
    nested = bool(generator.random() < 0.6)
    whole = generator.random() < 0.6
    cols = block * int(generator.integers(1, 4)) if whole else int(generator.integers(1, 200))
    shape = [int(generator.integers(1, 40)), cols]
    if generator.random() < 0.15:
        shape.insert(0, int(generator.integers(1, 4)))
    weight = drawn(generator, shape, dtype)
    if generator.random() < 0.05:
        weight.zero_()
    stored = STORED[generator.integers(3)]
    if (weight.numel() + 1) // 2 % stored.itemsize:
        stored = torch.uint8
    codes, state = bnb.quantize_4bit(weight, blocksize=block, compress_statistics=nested, quant_type=kind, quant_storage=stored)
    tensors[name] = codes
    tensors |= {f"{name}.{key}": part for key, part in state.as_dict(packed=True).items()}
    if whole:
        values[name] = bnb.dequantize_4bit(codes, state)
        if codes.shape[0] == 1:  # which it takes for a matrix that was turned
            values[name] = values[name].t()
    else:
        absmax = bnb.dequantize_blockwise(state.absmax, state.state2) + state.offset if state.nested else state.absmax
        bytes_of = codes.view(torch.uint8).reshape(-1)
        values[name] = by_formula(bytes_of, absmax, bnb.get_4bit_type(kind, device="cpu"), block, weight.shape, dtype)
    values[name] = values[name].reshape(shape).clone()


def main():
    folder = Path(sys.argv[1])
    generator = np.random.default_rng(11)
    for name, configured in (("four", {"load_in_4bit": True}), ("eight", {"load_in_8bit": True})):
        tensors, values = {}, {}
        for number in range(100 if name == "four" else 20):
            layer = f"layers.{number}.up_proj"
            if name == "four":
                add_four_bits(generator, f"{layer}.weight", tensors, values)
            else:
                weight = drawn(generator, [int(n) for n in generator.integers(1, 80, 2)], torch.float16)
                codes, rows, _ = bnb.int8_vectorwise_quant(weight)
                tensors |= {f"{layer}.weight": codes, f"{layer}.SCB": rows}
                if number % 2:
                    tensors[f"{layer}.weight_format"] = torch.tensor(0, dtype=torch.uint8)
                values[f"{layer}.weight"] = bnb.int8_vectorwise_dequant(codes, rows)
        tensors["norm.weight"] = values["norm.weight"] = drawn(generator, [7], torch.bfloat16)
        (folder / name).mkdir(parents=True)
        save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, folder / name / "model.safetensors")
        save_file({key: tensor.float().contiguous() for key, tensor in values.items()}, folder / f"{name}.values.safetensors")
        config = {"quantization_config": {"quant_method": "bitsandbytes", **configured}}
        (folder / name / "config.json").write_text(json.dumps(config))


if __name__ == "__main__":
    main()

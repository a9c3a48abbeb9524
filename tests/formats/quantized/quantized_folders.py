"""Folders as compressed-tensors, GPTQ and AWQ write them, drawn at random, and what their own libraries make of them.

The oracles are compressed-tensors' decompressors, gptqmodel's unpacking and autoawq's dequantize_gemm (the last two out of
the environment clients/quantized, by file: their packages import what tests have no use for). gptqmodel computes in float32
and rounds to the checkpoint's type once, as Crumb does; its kernels compute in that type, which is the same.
"""

import importlib.util
import json
import logging
import os
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file


def client_packages() -> Path:
    cache = Path(os.environ.get("CRUMB_CACHE") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "crumb")
    found = sorted(cache.glob("clients/quantized/lib/python3*/site-packages"))
    if not found:
        pytest.skip("gptqmodel and autoawq are not installed (scripts/setup tests)")
    return found[0]


def gptqmodel():
    """gptqmodel.utils.model_dequant, without the packages around it."""
    root = client_packages()
    no = lambda *given: False  # noqa: E731
    stubs = {
        "gptqmodel": {},
        "gptqmodel.quantization": {},
        "gptqmodel.utils": dict.fromkeys(
            ("gte_python_3_13_3", "gte_python_3_14", "has_gil_disabled", "log_gil_requirements_for"), no),
        "gptqmodel.utils.logger": {"setup_logger": lambda: logging.getLogger("gptqmodel")},
    }  # fmt: skip
    for name, contents in stubs.items():
        module = sys.modules.setdefault(name, types.ModuleType(name))
        module.__path__ = [str(root / name.replace(".", "/"))]
        module.__dict__.update(contents)
    module = importlib.import_module("gptqmodel.utils.model_dequant")
    for name in [name for name in sys.modules if name.split(".")[0] == "gptqmodel"]:
        del sys.modules[name]  # others ask whether the package is there
    return module


def autoawq():
    """awq.utils.packing_utils."""
    spec = importlib.util.spec_from_file_location("awq_packing_utils", client_packages() / "awq/utils/packing_utils.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(folder: Path, tensors: dict, quantization: dict, **config) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": quantization}))
    return folder


# --- compressed-tensors -------------------------------------------------------------------------------------------

SCALES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def draw_scales(rng, shape, dtype):
    """Mostly of weights' size, some tiny and some large, some below zero, some zero."""
    exponents = rng.choice([-8.0, -8.0, -8.0, -20.0, 4.0], shape) + rng.normal(0, 2, shape)
    signs = rng.choice([1.0, 1.0, 1.0, -1.0, 0.0], shape, p=[0.4, 0.3, 0.2, 0.08, 0.02])
    return torch.tensor(2.0**exponents * signs, dtype=torch.float64).to(dtype)


def draw_integers(rng, style):
    """A layer of integers: its state, its scheme's weights and format."""
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

    rows, bits = int(rng.integers(1, 70)), int(rng.integers(1, 9))
    strategy = str(rng.choice(["tensor", "channel", "group", "block"], p=[0.2, 0.3, 0.4, 0.1]))
    group = int(rng.choice([1, 2, 3, 8, 16, 32, 33, 128]))
    cols = group * int(rng.integers(1, 6)) if strategy == "group" else int(rng.integers(1, 200))
    block = [int(rng.integers(1, 40)), int(rng.integers(1, 60))]
    symmetric = bool(rng.random() < 0.5) or strategy == "block"
    shape = {"tensor": [1], "channel": [rows, 1], "group": [rows, cols // group],
             "block": [-(-rows // block[0]), -(-cols // block[1])]}[strategy]  # fmt: skip
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    codes = torch.tensor(rng.integers(low, high + 1, (rows, cols)), dtype=torch.int8)
    zeros = torch.tensor(rng.integers(low, high + 1, shape), dtype=torch.int8)
    scale = draw_scales(rng, shape, SCALES[str(rng.choice(list(SCALES)))])
    state = {"weight_scale": scale}
    if style == "pack-quantized":
        state |= {"weight_packed": pack_to_int32(codes, bits), "weight_shape": torch.tensor([rows, cols])}
        if not symmetric:
            packed = strategy in ("channel", "group")
            state["weight_zero_point"] = pack_to_int32(zeros, bits, packed_dim=0) if packed else zeros
    else:
        state["weight"] = codes
        if not symmetric:
            state["weight_zero_point"] = zeros
    weights = {"num_bits": bits, "type": "int", "symmetric": symmetric, "strategy": strategy}
    if strategy == "group":
        weights["group_size"] = group
    if strategy == "block":
        weights["block_structure"] = block
    return state, weights


def draw_fp8(rng, style):
    rows = int(rng.integers(1, 70))
    strategy = str(rng.choice(["tensor", "channel", "block", "group"]))
    block = [int(rng.integers(1, 40)), int(rng.integers(1, 60))]
    cols = 16 * int(rng.integers(1, 8)) if strategy == "group" else int(rng.integers(1, 200))
    shape = {"tensor": [1], "channel": [rows, 1], "group": [rows, cols // 16],
             "block": [-(-rows // block[0]), -(-cols // block[1])]}[strategy]  # fmt: skip
    codes = torch.tensor(rng.integers(0, 256, (rows, cols)), dtype=torch.uint8).view(torch.float8_e4m3fn)
    state = {"weight": codes, "weight_scale": draw_scales(rng, shape, SCALES[str(rng.choice(list(SCALES)))])}
    weights = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": strategy}
    if strategy == "group":
        weights["group_size"] = 16
    if strategy == "block":
        weights["block_structure"] = block
    return state, weights


def draw_mx(rng, style):
    """mxfp4, mxfp6, mxfp8, nvfp4: any codes, any exponents."""
    bits = {"mxfp4-pack-quantized": 4, "nvfp4-pack-quantized": 4, "mxfp6-pack-quantized": 6, "mxfp8-quantized": 8}[style]
    group = 16 if style.startswith("nvfp4") else 32
    rows, groups = int(rng.integers(1, 70)), int(rng.integers(1, 6))
    codes = torch.tensor(rng.integers(0, 256, (rows, groups * group * bits // 8)), dtype=torch.uint8)
    wide = rng.random() < 0.2  # exponents to both ends, else those of weights
    exponents = rng.integers(0, 256, (rows, groups)) if wide else rng.integers(110, 130, (rows, groups))
    state = {"weight_packed": codes, "weight_scale": torch.tensor(exponents, dtype=torch.uint8)}
    weights = {"num_bits": bits, "type": "float", "symmetric": True, "strategy": "group", "group_size": group}
    if style == "mxfp8-quantized":
        state = {"weight": codes.view(torch.float8_e4m3fn), "weight_scale": state["weight_scale"]}
    if style == "nvfp4-pack-quantized":
        state["weight_scale"] = torch.tensor(exponents, dtype=torch.uint8).view(torch.float8_e4m3fn)
        state["weight_global_scale"] = torch.tensor([2.0 ** rng.normal(8, 4)], dtype=torch.float32)
        weights["strategy"] = "tensor_group"
    return state, weights


DRAWN = {
    "pack-quantized": draw_integers, "int-quantized": draw_integers, "naive-quantized": draw_integers,
    "float-quantized": draw_fp8, "nvfp4-pack-quantized": draw_mx, "mxfp4-pack-quantized": draw_mx,
    "mxfp6-pack-quantized": draw_mx, "mxfp8-quantized": draw_mx,
}  # fmt: skip


def decompress(state, weights, style):
    """What compressed-tensors makes of a layer."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationScheme

    scheme = QuantizationScheme(targets=["Linear"], weights=weights)
    return BaseCompressor.get_value_from_registry(style).decompress(dict(state), scheme)["weight"]


def compressed_tensors_folder(folder, style, count, seed):
    """A folder of `count` layers, each with a group of its own, and the expected weights."""
    rng = np.random.default_rng(seed)
    tensors, groups, expected = {}, {}, {}
    for n in range(count):
        state, weights = DRAWN[style](rng, style)
        name = f"layers.{n}.proj"
        tensors |= {f"{name}.{part}": tensor for part, tensor in state.items()}
        groups[f"group_{n}"] = {"targets": [name], "weights": weights, "format": style}
        expected[f"{name}.weight"] = decompress(state, weights, style)
    tensors["norm.weight"] = expected["norm.weight"] = torch.ones(4)
    write(folder, tensors, {"quant_method": "compressed-tensors", "format": style, "config_groups": groups})
    return expected


# --- GPTQ and AWQ -------------------------------------------------------------------------------------------------


def draw_gptq(rng, library, version):
    bits = int(rng.choice([2, 3, 4, 8]))
    step = 32 if bits == 3 else 32 // bits
    rows, cols = step * int(rng.integers(1, 5)), 32 * int(rng.integers(1, 6))
    group = int(rng.choice([cols, 32, 16, 24, 7]))
    groups = -(-cols // group)
    act_order = rng.random() < 0.5
    index = rng.permutation(cols) // group if act_order else np.arange(cols) // group
    codes = torch.tensor(rng.integers(0, 1 << bits, (cols, rows)), dtype=torch.int32)
    # Version 1 keeps one less, in a field that holds no -1.
    zeros = torch.tensor(rng.integers(1 if version == "gptq" else 0, 1 << bits, (groups, rows)), dtype=torch.int32)
    stored = zeros - (1 if version == "gptq" else 0)
    dtype = [torch.float16, torch.bfloat16, torch.float32][int(rng.integers(3))]
    state = {
        "qweight": library.pack_cols(codes.t().contiguous(), bits, pack_dtype=torch.int32).t().contiguous(),
        "qzeros": library.pack_cols(stored, bits, pack_dtype=torch.int32),
        "scales": draw_scales(rng, (groups, rows), dtype),
        "g_idx": torch.tensor(index, dtype=torch.int32),
    }
    # As gptqmodel's convert_gptq_file does.
    read = library.unpack_cols(library._correct_gptq_v1_qzeros(state["qzeros"], bits) if version == "gptq"
                               else state["qzeros"], bits)  # fmt: skip
    weight = library.unpack_rows(state["qweight"], bits).float() - read.float()[index]
    weight = (weight * state["scales"].float()[index]).to(dtype).t().contiguous()
    if not act_order and cols % group == 0 and rng.random() < 0.3:
        del state["g_idx"]
    return state, weight, bits, group


def gptq_folder(folder, version, count, seed):
    library = gptqmodel()
    rng = np.random.default_rng(seed)
    tensors, expected = {}, {}
    for n in range(count):
        state, weight, bits, group = draw_gptq(rng, library, version)
        tensors |= {f"layers.{n}.proj.{part}": tensor for part, tensor in state.items()}
        expected[f"layers.{n}.proj.weight"] = weight
        tensors[f"layers.{n}.proj.bias"] = expected[f"layers.{n}.proj.bias"] = torch.ones(3)
    write(folder, tensors, {"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": version})
    return expected


def awq_folder(folder, count, seed):
    library = autoawq()
    rng = np.random.default_rng(seed)
    tensors, expected = {}, {}
    for n in range(count):
        rows, groups = 8 * int(rng.integers(1, 20)), int(rng.integers(1, 6))
        word = lambda *shape: torch.tensor(rng.integers(-(2**31), 2**31, shape), dtype=torch.int32)  # noqa: B023, E731
        state = {"qweight": word(groups * 32, rows // 8), "qzeros": word(groups, rows // 8),
                 "scales": draw_scales(rng, (groups, rows), torch.float16)}  # fmt: skip
        tensors |= {f"layers.{n}.proj.{part}": tensor for part, tensor in state.items()}
        weight = library.dequantize_gemm(state["qweight"], state["qzeros"], state["scales"], 4, 32)
        expected[f"layers.{n}.proj.weight"] = weight.t().contiguous()
    write(folder, tensors, {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True})
    return expected

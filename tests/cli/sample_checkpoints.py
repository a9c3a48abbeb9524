"""Small checkpoints for the tests of the command line, written by hand so that they can also be wrong."""

import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest

BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32,
    "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
NAMES = {"float32": "F32", "float64": "F64", "float16": "F16", "int64": "I64", "int32": "I32", "bool": "BOOL",
         "uint8": "U8", "int8": "I8", "complex64": "C64"}  # fmt: skip


def safetensors_bytes(tensors: dict, metadata: dict | None = None) -> bytes:
    """{name: numpy array, or (dtype, shape, bytes)} as a safetensors file, in the order given."""
    header, data = {}, []
    if metadata is not None:
        header["__metadata__"] = metadata
    end = 0
    for name, tensor in tensors.items():
        if not isinstance(tensor, tuple):
            array = np.ascontiguousarray(tensor).reshape(np.shape(tensor))
            tensor = (NAMES[array.dtype.name], list(array.shape), array.tobytes())
        dtype, shape, raw = tensor
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + len(raw)]}
        data.append(raw)
        end += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data)


def write_safetensors(path: Path, tensors: dict, metadata: dict | None = None) -> Path:
    path.write_bytes(safetensors_bytes(tensors, metadata))
    return path


def read_safetensors(path: Path) -> dict:
    """{name: (dtype, shape, bytes)}."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    data = content[8 + length :]
    return {
        name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])]) for name, entry in header.items()
    }


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def small_tensors() -> dict:
    """One of each kind: weights, an embedding table, a norm, biases, integers, a scalar, an empty one."""
    return {
        "embeddings.word_embeddings.weight": normal(50, 128),
        "embeddings.LayerNorm.weight": normal(128),
        "embeddings.position_ids": np.arange(16, dtype=np.int64).reshape(1, 16),
        "encoder.layer.0.query.weight": normal(64, 128, seed=1),
        "encoder.layer.0.query.bias": normal(64),
        "encoder.layer.0.key.weight": normal(64, 128, seed=2),
        "encoder.layer.1.query.weight": normal(64, 128, seed=3, dtype=np.float16),
        "encoder.layer.1.key.weight": normal(64, 128, seed=4, dtype=np.float64),
        "stem.conv.weight": normal(8, 16, 4, 4),
        "temperature": np.float32(0.5),
    }


def write_folder(folder: Path, tensors: dict | None = None, config: dict | None = None) -> Path:
    """A Hugging Face folder with one safetensors file."""
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "model.safetensors", small_tensors() if tensors is None else tensors)
    (folder / "config.json").write_text(json.dumps(config or {"architectures": ["TestModel"]}))
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    return folder


def write_shards(folder: Path, tensors: dict, count: int) -> Path:
    """A Hugging Face folder of several files and an index."""
    folder.mkdir(parents=True, exist_ok=True)
    names, placed = list(tensors), {}
    for i in range(count):
        file = f"model-{i + 1:05}-of-{count:05}.safetensors"
        part = {name: tensors[name] for name in names[i::count]}
        write_safetensors(folder / file, part)
        placed |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))
    return folder


def digest(path: Path) -> dict:
    """The contents of a file, or of every file under a folder."""
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def write_gguf(path: Path, tensors: dict) -> Path:
    """{name: numpy array} as a GGUF file of an architecture that nobody knows."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(path, "some")
    for name, array in tensors.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path

"""A checkpoint without a network, and how checkpoints are written."""

import json
import struct

import numpy as np


def write_safetensors(path, tensors):
    header, blobs, offset = {}, [], 0
    for name, array in tensors.items():
        data = array.tobytes()
        kind = {"float32": "F32", "float16": "F16", "int64": "I64", "float64": "F64"}[str(array.dtype)]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        blobs.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def checkpoint(rng):
    def normal(*shape):
        return rng.normal(0, 0.05, shape).astype(np.float32)

    return {
        "embeddings.word_embeddings.weight": normal(96, 64),
        "layer.0.query.weight": normal(64, 128),
        "layer.0.query.bias": normal(64),
        "layer.0.odd.weight": normal(7, 37),
        "layer.1.output.weight": normal(128, 128).astype(np.float16),
        "layer.1.norm.weight": np.ones(64, np.float32),
        "steps": np.arange(3, dtype=np.int64),
    }

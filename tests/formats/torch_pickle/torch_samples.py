"""Tensors as torch has them, drawn at random, and as crumb gives them back."""

import numpy as np
import torch

FLOATS = ["float64", "float32", "float16", "bfloat16"]
FLOATS8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
INTEGERS = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def as_read(tensor):
    """As crumb gives it back: floating tensors widened to float32, in order."""
    tensor = tensor.detach()
    return (tensor.float() if tensor.is_floating_point() else tensor).contiguous()


def assert_same(found, expected):
    assert sorted(found) == sorted(expected)
    for name, tensor in expected.items():
        wanted = as_read(tensor)
        assert found[name].dtype == wanted.dtype, name
        assert found[name].shape == wanted.shape, name
        a, b = found[name].reshape(-1).numpy(), wanted.reshape(-1).numpy()
        assert np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"), name


def drawn_quantized(rng):
    """A quantized tensor of any kind that torch has, as it lies in memory: views, too."""
    shape = [int(n) for n in rng.integers(1, 7, int(rng.integers(1, 5)))]
    values = torch.from_numpy(rng.normal(0, 3, shape)).float()
    kind = str(rng.choice(["tensor", "channel", "float"]))
    dtype = [torch.qint8, torch.quint8, torch.qint32][rng.integers(3)]
    if kind == "tensor":
        low = -20 if dtype == torch.qint8 else 0
        made = torch.quantize_per_tensor(values, float(rng.random() + 0.01), int(rng.integers(low, 100)), dtype)
    else:
        axis = int(rng.integers(len(shape)))
        scales = torch.from_numpy(rng.random(shape[axis]) + 0.01)
        zeros = torch.from_numpy(rng.integers(0, 90, shape[axis]))
        if kind == "float":
            scales, zeros, dtype = scales.float(), zeros.float() + 0.3, torch.quint8
        made = torch.quantize_per_channel(values, scales, zeros, axis, dtype)
    if kind == "tensor" and len(shape) > 1 and rng.random() < 0.5:
        made = made.transpose(0, 1)[1:] if made.shape[1] > 1 and rng.random() < 0.5 else made.transpose(0, 1)
    return made

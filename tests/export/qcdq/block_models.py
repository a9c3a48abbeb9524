"""onnxruntime's MatMulNBits and GatherBlockQuantized by their definition, in NumPy, and models of drawn ones.

Written from the operators' contract (onnxruntime, docs/ContribOperators.md), not from Crumb's code: codes are packed from the
lowest bits of a byte on, element (n, k) = (code - zero point) * scale of block k // block_size.
"""

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper

RUNTIME = "com.microsoft"
UNIT = 2.0**-24  # relative error of one rounding to float32


def pack(codes, bits):
    """Codes along the last axis as bytes, each row filled up to whole bytes."""
    planes = ((codes[..., None] >> np.arange(bits)) & 1).astype(np.uint8).reshape(*codes.shape[:-1], -1)
    return np.packbits(planes, axis=-1, bitorder="little")


def unpack(data, bits, count):
    planes = np.unpackbits(data, axis=-1, bitorder="little").reshape(*data.shape[:-1], -1, bits)
    return (planes.astype(np.int64) << np.arange(bits)).sum(-1)[..., :count]


def attributes_of(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


@dataclass
class Weight:
    """A matrix [N, K]: every element's code, zero point and scale."""

    codes: np.ndarray
    zeros: np.ndarray
    scales: np.ndarray

    @property
    def values(self):
        made = (self.codes.astype(np.float32) - self.zeros) * self.scales
        assert made.dtype == np.float32
        return made

    def bound(self, x, roundings=6):
        """How far a product of x and the weight in float32, in any order of sums and however it subtracts, may be from the
        exact one: gamma_n times the sum of all magnitudes (Higham, Accuracy and Stability, section 3.1)."""
        terms = (self.codes + np.abs(self.zeros)).astype(np.float64) * np.abs(self.scales)
        n = self.codes.shape[1] + roundings
        return n * UNIT / (1 - n * UNIT) * (np.abs(x).astype(np.float64) @ terms.T) + 1e-38


def weight_of(node, constants):
    """The weight of a MatMulNBits of a file."""
    said = attributes_of(node)
    bits, block, rows, columns = (said[name] for name in ("bits", "block_size", "N", "K"))
    blocks = -(-columns // block)
    data, scales = (constants[name] for name in node.input[1:3])
    assert data.dtype == np.uint8 and data.shape == (rows, blocks, block * bits // 8)
    codes = unpack(data.reshape(rows, -1), bits, columns)
    zeros = np.full((rows, blocks), 1 << (bits - 1), np.float32)
    if len(node.input) > 3 and node.input[3]:
        stored = constants[node.input[3]]
        zeros = unpack(stored.reshape(rows, -1), bits, blocks) if stored.dtype == np.uint8 else stored.reshape(rows, blocks)
    each = np.arange(columns) // block
    return Weight(codes, zeros.astype(np.float32)[:, each], scales.reshape(rows, blocks).astype(np.float32)[:, each])


@dataclass
class Drawn:
    """A model whose outputs are one product or look-up each: inputs, and what their definition makes of them."""

    nodes: list = field(default_factory=list)
    constants: list = field(default_factory=list)
    inputs: dict = field(default_factory=dict)
    outputs: dict = field(default_factory=dict)  # name -> (exact value, bound, element type)

    def const(self, name, values):
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def model(self):
        element = helper.np_dtype_to_tensor_dtype
        infos = [helper.make_tensor_value_info(n, element(v.dtype), v.shape) for n, v in self.inputs.items()]
        ends = [helper.make_tensor_value_info(n, element(np.dtype(t)), np.shape(v)) for n, (v, _, t) in self.outputs.items()]
        graph = helper.make_graph(self.nodes, "drawn", infos, ends, self.constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(RUNTIME, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def add_drawn(to, index, rng):
    """A MatMulNBits or GatherBlockQuantized of a drawn form; what onnxruntime 1.31 runs on a CPU."""
    bits, gathers = int(rng.choice([2, 4, 8])), rng.random() < 0.25
    block = int(16 << rng.integers(0, 5))
    rows, columns = int(rng.integers(1, 12)), int(rng.integers(1, 90))
    if gathers:
        columns = -(-columns // (8 // bits)) * (8 // bits)
    blocks = -(-columns // block)
    dtype = np.float16 if rng.random() < 0.25 and not gathers else np.float32
    codes = rng.integers(0, 1 << bits, (rows, blocks * block))
    kinds = ["none", "usual", "codes"] if bits == 8 or gathers else ["none", "usual", "codes", "half", "floats"]
    kind = rng.choice(kinds)
    least = -1 if rng.random() < 0.3 and kind != "floats" else 0.01
    scales = rng.uniform(least, 1, (rows, blocks)).astype(dtype)
    zeros = np.full((rows, blocks), 1 << (bits - 1), dtype)
    if kind == "codes":
        zeros = rng.integers(0, 1 << bits, (rows, blocks)).astype(dtype)
    elif kind == "half":
        zeros = np.full((rows, blocks), ((1 << bits) - 1) / 2, dtype)
    elif kind == "floats":
        zeros = rng.uniform(0, (1 << bits) - 1, (rows, blocks)).astype(dtype)
    if rng.random() < 0.3:  # one scale and zero point a row
        scales[:], zeros[:] = scales[:, :1], zeros[:, :1]
    each = np.arange(columns) // block
    weight = Weight(codes[:, :columns], zeros[:, each].astype(np.float32), scales[:, each].astype(np.float32))
    flat = (lambda a: a.reshape(-1)) if rng.random() < 0.3 and not gathers else (lambda a: a)
    inputs = [to.const(f"s{index}", flat(scales))]
    if kind in ("usual", "codes"):
        inputs.append(to.const(f"z{index}", flat(pack(zeros.astype(np.int64), bits))))
    elif kind in ("half", "floats"):
        inputs.append(to.const(f"z{index}", flat(zeros)))
    out = f"y{index}"
    if gathers:
        data = to.const(f"b{index}", pack(codes[:, :columns], bits))
        at = rng.integers(-rows, rows, tuple(rng.integers(1, 4, rng.integers(1, 3)))).astype(np.int64)
        to.inputs[f"x{index}"] = at
        to.nodes.append(helper.make_node("GatherBlockQuantized", [data, f"x{index}", *inputs], [out], name=f"n{index}",
                                         domain=RUNTIME, bits=bits, block_size=block, gather_axis=0, quantize_axis=1))  # fmt: skip
        to.outputs[out] = (weight.values[at], np.zeros(()), np.float32)
        return weight
    data = to.const(f"b{index}", pack(codes.reshape(rows, blocks, block), bits))
    x = rng.normal(size=(*rng.integers(1, 4, rng.integers(0, 4)), columns)).astype(dtype)
    to.inputs[f"x{index}"] = x
    exact = x.astype(np.float64) @ weight.values.astype(np.float64).T
    bound = weight.bound(x)
    if rng.random() < 0.4:
        bias = rng.normal(size=rows).astype(dtype)
        inputs += [""] * (4 - len(inputs) - 1) + [to.const(f"c{index}", bias)]
        exact = exact + bias
        bound = bound + 2 * UNIT * np.abs(exact)
    if dtype == np.float16:
        bound = bound * (1 + 2.0**-10) + 2.0**-11 * np.abs(exact) + 2.0**-25
    said = {"accuracy_level": int(rng.integers(0, 2))} if rng.random() < 0.5 else {}
    to.nodes.append(helper.make_node("MatMulNBits", [f"x{index}", data, *inputs], [out], name=f"n{index}", domain=RUNTIME,
                                     K=columns, N=rows, bits=bits, block_size=block, **said))  # fmt: skip
    to.outputs[out] = (exact, bound, dtype)
    return weight


def drawn_model(seed, count):
    rng = np.random.default_rng(seed)
    drawn = Drawn()
    weights = {f"b{i}": add_drawn(drawn, i, rng) for i in range(count)}
    return drawn, weights


def save(model, path):
    onnx.save(model, path)
    return path

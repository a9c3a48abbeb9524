"""Products beside those of float operators and constant weights: what verify counts of them, and run simulates."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh
from test_cli_verify_accumulator import QONNX, quant, rows_of

RNG = np.random.default_rng(7)
CODES = RNG.integers(-3, 4, (6, 5))
BYTES = RNG.integers(-128, 128, (6, 5)).astype(np.int8)
KERNEL = RNG.integers(-128, 128, (4, 3, 2)).astype(np.int8)
X = RNG.integers(-40, 41, (2, 4, 6)).astype(np.float32) / 8


class Model:
    """x [2, 4, 6] float; whatever it is quantized to, the node `it`, and y."""

    def __init__(self):
        self.nodes, self.inits = [], []

    def constant(self, name, value):
        self.inits.append(nh.from_array(np.asarray(value), name))
        return name

    def node(self, op, inputs, name=None, domain="", **attributes):
        name = name or f"{op}_{len(self.nodes)}"
        self.nodes.append(h.make_node(op, inputs, [name + "_out"], name, domain=domain, **attributes))
        return name + "_out"

    def quant(self, name, value, bits=3, zero=0.0, signed=1, scale=0.5):
        self.nodes.append(quant(name, value, scale, bits, signed, 0, self.inits, zero))
        return name + "_q"

    def bytes(self, zero=100):
        """x as uint8."""
        operands = ["x", self.constant("xs", np.float32(0.25)), self.constant("xz", np.uint8(zero))]
        return self.node("QuantizeLinear", operands)

    def save(self, path, output, kind=T.FLOAT):
        graph = h.make_graph(self.nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, X.shape)],
                             [h.make_tensor_value_info(output, kind, None)], self.inits)
        opsets = [h.make_opsetid("", 13), h.make_opsetid(QONNX, 1)]
        onnx.save(h.make_model(graph, opset_imports=opsets, ir_version=8), path)


def attention(m):
    keys = m.node("Transpose", ["x"], perm=[0, 2, 1])
    return m.node("MatMul", [m.quant("a", "x", zero=1.0), m.quant("b", keys, bits=4, signed=0)], "it")


def rows(m):
    """A matrix by a vector, both computed."""
    vector = m.node("ReduceMax", ["x"], axes=[0, 1], keepdims=0)
    return m.node("MatMul", [m.quant("a", "x"), m.quant("b", vector)], "it")


def gemm(m):
    flat = m.node("Reshape", ["x", m.constant("flat", np.array([8, 6]))])
    a, b = m.quant("a", flat), m.quant("b", m.node("Abs", [flat]), signed=0)
    return m.node("Gemm", [a, b], "it", transB=1, alpha=0.5)


def conv(m):
    kernel = m.node("Slice", ["x", m.constant("from", np.array([0])), m.constant("to", np.array([2])),
                              m.constant("axis", np.array([2]))])
    return m.node("Conv", [m.quant("a", "x"), m.quant("b", kernel, bits=2)], "it", pads=[1, 0], strides=[2])


def einsum(m):
    m.constant("w", (CODES * 0.25).astype(np.float32))
    return m.node("Einsum", [m.quant("a", "x", zero=-1.0), m.quant("w", "w", bits=3, scale=0.25)], "it",
                  equation="bsk,kn->nbs")


def einsum_computed(m):
    a, b = m.quant("a", "x"), m.quant("b", m.node("Neg", ["x"]), bits=2)
    return m.node("Einsum", [a, b], "it", equation="bik,bjk->bji")


def einsum_batched(m):
    weight = (RNG.integers(-3, 4, (6, 2, 3)) * 0.25).astype(np.float32)
    m.constant("w", weight)
    return m.node("Einsum", [m.quant("w", "w", bits=3, scale=0.25), m.quant("a", "x")], "it", equation="kbn,bsk->bns")


def matmul_integer(m):
    return m.node("MatMulInteger", [m.bytes(), m.constant("w", BYTES), "xz",
                                    m.constant("wz", np.array([1, -2, 3, 0, 5], np.int8))], "it")


def matmul_dynamic(m):
    m.nodes.append(h.make_node("DynamicQuantizeLinear", ["x"], ["xq", "dynamic_s", "dynamic_z"], "dynamic"))
    return m.node("MatMulInteger", ["xq", m.constant("w", BYTES), "dynamic_z"], "it")


def conv_integer(m):
    return m.node("ConvInteger", [m.bytes(), m.constant("w", np.tile(KERNEL[:, :2], (1, 2, 1))), "xz",
                                  m.constant("wz", np.int8(3))], "it", pads=[1, 1])


def qlinear_matmul(m):
    operands = [m.bytes(), "xs", "xz", m.constant("w", BYTES), m.constant("ws", np.float32(0.01)),
                m.constant("wz", np.int8(-4)), m.constant("ys", np.float32(0.5)), m.constant("yz", np.uint8(128))]
    return m.node("QLinearMatMul", operands, "it")


def qlinear_conv(m):
    operands = [m.bytes(), "xs", "xz", m.constant("w", np.tile(KERNEL[:, :2], (1, 2, 1))),
                m.constant("ws", np.array([0.01, 0.02, 0.03, 0.04], np.float32)), m.constant("wz", np.int8(0)),
                m.constant("ys", np.float32(2)), m.constant("yz", np.uint8(128)),
                m.constant("b", np.array([1000, -900, 0, 7], np.int32))]
    return m.node("QLinearConv", operands, "it", strides=[2])


def xnor(m):
    bits = m.node("MultiThreshold", ["x", m.constant("t", np.zeros((1, 1), np.float32))], domain=QONNX,
                  out_dtype="BINARY")
    return m.node("XnorPopcountMatMul", [bits, m.constant("w", (CODES > 0).astype(np.float32))], "it", domain=QONNX)


KINDS = {
    "attention": (attention, T.FLOAT), "rows": (rows, T.FLOAT), "gemm": (gemm, T.FLOAT), "conv": (conv, T.FLOAT),
    "einsum": (einsum, T.FLOAT), "einsum computed": (einsum_computed, T.FLOAT),
    "einsum batched": (einsum_batched, T.FLOAT), "matmul integer": (matmul_integer, T.INT32),
    "matmul dynamic": (matmul_dynamic, T.INT32), "conv integer": (conv_integer, T.INT32),
    "qlinear matmul": (qlinear_matmul, T.UINT8), "qlinear conv": (qlinear_conv, T.UINT8), "xnor": (xnor, T.FLOAT),
}


def made(path, kind):
    model = Model()
    make, element = KINDS[kind]
    model.save(path, make(model), element)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_counted(crumb, tmp_path, kind):
    path = made(tmp_path / "net.onnx", kind)
    row = next(row for row in rows_of(crumb("verify", path, "--accumulator", "--json")) if row["name"] == "it")
    assert row["bits_needed"] and "reason" not in row
    crumb("verify", path, "--accumulator", row["bits_needed"])
    assert "'it'" in crumb("verify", path, "--accumulator", row["bits_needed"] - 1, status=1).stderr


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("kind", KINDS)
def test_their_registers_are_simulated(crumb, tmp_path, kind):
    """Wide registers change nothing; those of the width that verify says overflow for no input, narrow ones for some."""
    path = made(tmp_path / "net.onnx", kind)
    bits = json.loads(crumb("verify", path, "--accumulator", "--json").stdout)["layers"][0]["bits_needed"]

    def run(x, *flags, status=0):
        np.save(tmp_path / "x.npy", x)
        done = crumb("run", path, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", *flags, status=status)
        return done.stderr if status else np.load(tmp_path / "y.npy")

    extremes = [X] + [np.random.default_rng(seed).choice(np.float32([-100, 100]), X.shape) for seed in range(2)]
    plain = [run(x) for x in extremes]
    assert plain[0].size and (run(X, "--accumulator", 40) == plain[0]).all()
    for x, y in zip(extremes, plain, strict=True):
        assert (run(x, "--accumulator", bits) == y).all()
    wrapped = (run(x, "--accumulator", 3, "--overflow", "wrap") for x in extremes)
    assert any((one != y).any() for one, y in zip(wrapped, plain, strict=True))


def test_what_is_not_covered_is_said(crumb, tmp_path):
    """A softmax between a quantizer and a product of two computed tensors, and an operator that nobody knows."""
    model, path = Model(), tmp_path / "net.onnx"
    keys = model.node("Transpose", ["x"], perm=[0, 2, 1])
    model.save(path, model.node("MatMul", [model.node("Softmax", [model.quant("a", "x")]), model.quant("b", keys)], "it"))
    done = crumb("verify", path, "--accumulator", "--json")
    (row,) = rows_of(done)
    assert row["bits_needed"] is None and "(Softmax)" in row["reason"]
    done = crumb("verify", path, "--accumulator")
    assert "not covered" in done.stdout and "it: not covered: " in done.stderr
    assert "is not covered" in crumb("verify", path, "--accumulator", 32, status=1).stderr

"""The runtime's integers against rational arithmetic: networks are drawn, and every code that comes out must be that of
exact arithmetic on the file's integers, scales and constants."""

import json
import math
from fractions import Fraction

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h

QONNX = "qonnx.custom_op.general"
F = np.float32


def exact(array):
    """Numbers as fractions."""
    return np.vectorize(lambda v: Fraction(float(v)), otypes=[object])(np.asarray(array, np.float64))


def half_even(x):
    low = math.floor(x)
    rest = x - low
    return low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1))


class Grid:
    """A quantizer of activations; `qcdq`: as QuantizeLinear and DequantizeLinear."""

    def __init__(self, rng, qcdq=False):
        self.qcdq = qcdq
        self.scale = F(2.0 ** -rng.integers(1, 5)) if rng.random() < 0.5 else F(rng.uniform(0.02, 0.4))
        self.bipolar = not qcdq and rng.random() < 0.1
        self.bits = 8 if qcdq and rng.random() < 0.5 else int(rng.integers(2, 9))
        self.signed = bool(rng.random() < 0.5)
        self.narrow = bool(rng.random() < 0.3)
        self.twice = bool(rng.random() < 0.2)
        self.zero = int(rng.integers(-3, 4)) if rng.random() < 0.3 and not self.bipolar else 0
        if qcdq and not self.signed:
            self.zero = abs(self.zero) * 40
        self.low = -(2 ** (self.bits - 1)) + self.narrow if self.signed else 0
        self.high = 2 ** (self.bits - 1) - 1 if self.signed else 2**self.bits - 1 - self.narrow
        if self.bipolar:
            self.low, self.high = -1, 1

    def code(self, value):
        """Of an exact value."""
        if self.bipolar:
            return 1 if value >= 0 else -1
        u = value / Fraction(float(self.scale))
        u = half_even(u) + self.zero if self.qcdq else half_even(u + self.zero)
        return min(max(u, self.low), self.high)

    def float_code(self, x):
        """Of a float32, in float32, as the operators' definitions are."""
        if self.bipolar:
            return 1 if x >= 0 else -1
        u = F(x) / self.scale
        u = np.rint(u) + F(self.zero) if self.qcdq else np.rint(min(max(u + F(self.zero), F(self.low)), F(self.high)))
        return int(min(max(u, self.low), self.high))

    def value(self, codes):
        """What stands for codes, exactly: of rational arithmetic."""
        return np.vectorize(lambda c: (c - self.zero) * Fraction(float(self.scale)), otypes=[object])(codes)

    def nodes(self, draft, x):
        """Twice, where the second gives what the first gave, as tools put quantizers around what moves elements."""
        return self.once(draft, self.once(draft, x)) if self.twice else self.once(draft, x)

    def once(self, draft, x):
        scale, zero = draft.constant(self.scale), draft.constant(F(self.zero))
        if self.bipolar:
            return draft.node("BipolarQuant", [x, scale], QONNX)
        if self.qcdq:
            kind = np.int8 if self.signed else np.uint8
            zero = draft.constant(np.asarray(self.zero, kind))
            codes = draft.node("QuantizeLinear", [x, scale, zero])
            if self.bits < 8 or self.narrow:
                codes = draft.node("Clip", [codes, *(draft.constant(kind(limit)) for limit in (self.low, self.high))])
            return draft.node("DequantizeLinear", [codes, scale, zero])
        return draft.node("Quant", [x, scale, zero, draft.constant(F(self.bits))], QONNX, signed=int(self.signed),
                          narrow=int(self.narrow), rounding_mode="ROUND")  # fmt: skip


class Draft:
    """A graph as it is drawn."""

    def __init__(self):
        self.list, self.constants, self.count = [], [], 0

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def constant(self, array):
        name = self.name()
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op, inputs, domain="", **attributes):
        out = self.name()
        self.list.append(h.make_node(op, inputs, [out], name=f"n{out}", domain=domain, **attributes))
        return out


def draw_weight(rng, draft, outputs, shape, axis, qcdq):
    """The name of a weight whose output channels lie on `axis`, and its exact values."""
    bits = int(rng.integers(2, 9))
    most = 2 ** (bits - 1) - 1
    codes = rng.integers(-most, most + 1, shape)
    per_channel = rng.random() < 0.7
    scale = rng.uniform(0.01, 0.2, outputs if per_channel else 1).astype(F)
    if rng.random() < 0.4:
        scale = np.exp2(-rng.integers(1, 6, scale.shape)).astype(F)
    spread = [1] * len(shape)
    spread[axis] = scale.size
    values = exact(codes) * exact(scale.reshape(spread))
    if qcdq:
        of_scale = draft.constant(scale if per_channel else scale[0])
        zero = draft.constant(np.zeros(scale.shape if per_channel else (), np.int8))
        stored = draft.constant(codes.astype(np.int8))
        if rng.random() < 0.3:  # floats and their quantizer
            floats = draft.constant(codes.astype(F) * (scale.reshape(spread) if per_channel else scale[0]))
            stored = draft.node("QuantizeLinear", [floats, of_scale, zero], axis=axis)
        if rng.random() < 0.5:
            stored = draft.node("Clip", [stored, draft.constant(np.int8(-most)), draft.constant(np.int8(most))])
        return draft.node("DequantizeLinear", [stored, of_scale, zero], axis=axis), values
    floats = codes.astype(F) * scale.reshape(spread)
    name = draft.node("Quant", [draft.constant(floats), draft.constant(scale.reshape(spread)), draft.constant(F(0)),
                                draft.constant(F(bits))], QONNX, signed=1, narrow=1, rounding_mode="ROUND")  # fmt: skip
    return name, values


def draw_bias(rng, draft, outputs, qcdq):
    """The name of a bias and its floats: a constant, or integers of 32 bits and a scale for each."""
    bias = rng.normal(size=outputs).astype(F)
    if not qcdq or rng.random() < 0.5:
        return draft.constant(bias), bias
    scale = rng.uniform(0.001, 0.01, outputs).astype(F)
    codes = np.rint(bias / scale).astype(np.int32)
    zero = draft.constant(np.zeros(outputs, np.int32))
    return draft.node("DequantizeLinear", [draft.constant(codes), draft.constant(scale), zero], axis=0), codes.astype(F) * scale


def convolve(x, w, stride, pad, group):
    """Of exact numbers."""
    n, channels, height, width = x.shape
    outputs, inputs, kh, kw = w.shape
    padded = np.full((n, channels, height + 2 * pad, width + 2 * pad), Fraction(0), object)
    padded[:, :, pad : pad + height, pad : pad + width] = x
    oh, ow = (height + 2 * pad - kh) // stride + 1, (width + 2 * pad - kw) // stride + 1
    y = np.empty((n, outputs, oh, ow), object)
    for o in range(outputs):
        first = o // (outputs // group) * inputs
        for i in range(oh):
            for j in range(ow):
                window = padded[:, first : first + inputs, i * stride : i * stride + kh, j * stride : j * stride + kw]
                y[:, o, i, j] = (window * w[o]).reshape(n, -1).sum(axis=1)
    return y


def draw_pad(rng, draft, name, x):
    """A Pad of the two spatial axes of an image, of zeros or of repeated elements."""
    mode = str(rng.choice(["constant", "constant", "edge", "reflect"]))
    before, behind = ([0, 0, *map(int, rng.integers(0, 3, 2))] for _ in range(2))
    extra = {"constant_values": Fraction(0)} if mode == "constant" else {}
    pads = draft.constant(np.array(before + behind, np.int64))
    return draft.node("Pad", [name, pads], mode=mode), np.pad(x, list(zip(before, behind, strict=True)), mode, **extra)


def draw_chain(rng, draft, name, x, channels):
    """Operations by constants, rectifiers and clips behind a product; the channels are on axis 1."""
    spread = [channels] + [1] * (x.ndim - 2)
    for _ in range(int(rng.integers(0, 4))):
        op = rng.choice(["Add", "Sub", "Mul", "Div", "Relu", "Clip", "LeakyRelu", "BatchNormalization"])
        numbers = rng.normal(size=spread if rng.random() < 0.5 else ()).astype(F)
        if rng.random() < 0.3:
            numbers = np.asarray(np.exp2(np.rint(numbers)), F)
        if op == "Relu":
            name, x = draft.node("Relu", [name]), np.maximum(x, Fraction(0))
        elif op == "Clip":
            low, high = F(-abs(rng.normal())), F(abs(rng.normal()) * 3)
            name = draft.node("Clip", [name, draft.constant(low), draft.constant(high)])
            x = np.minimum(np.maximum(x, Fraction(float(low))), Fraction(float(high)))
        elif op == "LeakyRelu":
            name, x = draft.node("LeakyRelu", [name], alpha=0.125), np.where(x < 0, x * Fraction(1, 8), x)
        elif op == "BatchNormalization":
            scale, bias, mean = (rng.normal(size=channels).astype(F) for _ in range(3))
            variance = rng.uniform(0.2, 2, channels).astype(F)
            name = draft.node("BatchNormalization", [name, *map(draft.constant, (scale, bias, mean, variance))], epsilon=1e-5)
            factor = scale / np.sqrt(variance + F(1e-5))  # rounded to float32, as the runtime says
            x = (x - exact(mean).reshape(spread)) * exact(factor).reshape(spread) + exact(bias).reshape(spread)
        else:
            if op == "Div":
                numbers = np.where(numbers == 0, F(1), numbers)
            other = exact(numbers) if numbers.ndim else Fraction(float(numbers))
            turned = op == "Sub" and rng.random() < 0.3
            inputs = [name, draft.constant(numbers)]
            name = draft.node(str(op), inputs[::-1] if turned else inputs)
            x = {"Add": x + other, "Sub": other - x if turned else x - other, "Mul": x * other, "Div": x / other if op == "Div" else x}[op]
    return name, x


def draw_network(seed):
    """A model, its input, and the exact values of its output; whether that is a quantizer's, and which."""
    rng = np.random.default_rng(seed)
    qcdq = bool(rng.random() < 0.3)
    draft = Draft()
    is_image = bool(rng.random() < 0.6)
    shape = [2, int(rng.integers(1, 5)), *(rng.integers(3, 7, 2) if is_image else [])]
    x = rng.normal(0, 2, [int(v) for v in shape]).astype(F)
    grid = Grid(rng, qcdq)
    name = grid.nodes(draft, "x")
    values = grid.value(np.vectorize(grid.float_code, otypes=[object])(x))
    ends = grid
    for _ in range(int(rng.integers(1, 4))):
        outputs = int(rng.integers(1, 6))
        if is_image:
            # Without a code for 0 a Pad stays as it is, and the layer behind it.
            if rng.random() < 0.4 and not grid.bipolar and grid.low <= grid.zero <= grid.high and min(values.shape[2:]) > 2:
                name, values = draw_pad(rng, draft, name, values)
            channels = values.shape[1]
            group = channels if rng.random() < 0.3 and outputs % channels == 0 else 1
            kernel = int(rng.integers(1, 4))
            pad, stride = int(rng.integers(0, 2)), int(rng.integers(1, 3))
            if min(values.shape[2:]) + 2 * pad < kernel:
                break
            w, exact_w = draw_weight(rng, draft, outputs, (outputs, channels // group, kernel, kernel), 0, qcdq)
            inputs = [name, w]
            values = convolve(values, exact_w, stride, pad, group)
            if rng.random() < 0.5:
                bias_name, bias = draw_bias(rng, draft, outputs, qcdq)
                inputs.append(bias_name)
                values = values + exact(bias).reshape(-1, 1, 1)
            name = draft.node("Conv", inputs, strides=[stride] * 2, pads=[pad] * 4, group=group)
        else:
            gemm, turned = rng.random() < 0.5, rng.random() < 0.5
            terms = values.shape[1]
            rows = (outputs, terms) if gemm and turned else (terms, outputs)
            w, exact_w = draw_weight(rng, draft, outputs, rows, 0 if gemm and turned else 1, qcdq)
            values = values.dot(exact_w.T if gemm and turned else exact_w)
            inputs = [name, w]
            if gemm and rng.random() < 0.5:
                bias_name, bias = draw_bias(rng, draft, outputs, qcdq)
                inputs.append(bias_name)
                values = values + exact(bias)
            name = draft.node("Gemm", inputs, transB=int(turned)) if gemm else draft.node("MatMul", inputs)
        name, values = draw_chain(rng, draft, name, values, outputs)
        if is_image and min(values.shape[2:]) >= 2 and rng.random() < 0.4:
            name = draft.node("MaxPool", [name], kernel_shape=[2, 2])
            values = np.maximum.reduce([values[:, :, i : values.shape[2] - 1 + i, j : values.shape[3] - 1 + j] for i in (0, 1) for j in (0, 1)])  # fmt: skip
        if is_image and rng.random() < 0.2 and min(values.shape[2:]) > 2:
            name, values = draw_pad(rng, draft, name, values)
        grid = Grid(rng, qcdq)
        # So that codes are spread out: the scale follows the values.
        largest = float(max(abs(v) for v in values.ravel()))
        if largest > 0 and rng.random() < 0.8:
            step = largest / max(1, grid.high - grid.low) * rng.uniform(0.5, 3)
            grid.scale = F(2.0 ** np.round(np.log2(step))) if rng.random() < 0.5 else F(step)
        name = grid.nodes(draft, name)
        values = grid.value(np.vectorize(grid.code, otypes=[object])(values))
        ends = grid
    graph = h.make_graph(draft.list, "g", [h.make_tensor_value_info("x", T.FLOAT, x.shape)],
                         [h.make_tensor_value_info(name, T.FLOAT, values.shape)], draft.constants)  # fmt: skip
    opsets = [h.make_opsetid("", 17), h.make_opsetid(QONNX, 1)]
    return h.make_model(graph, opset_imports=opsets, ir_version=8), x, values, ends


@pytest.fixture
def run(crumb, tmp_path):
    def by(model, x, *flags):
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
        np.save(tmp_path / "x.npy", x)
        crumb("run", tmp_path / "m.onnx", "--engine", "runtime", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", *flags)
        return np.load(tmp_path / "y.npy")

    return by


@pytest.mark.parametrize("part", range(4))
def test_codes_are_those_of_rational_arithmetic(run, crumb, tmp_path, part):
    codes, layers, thresholds = set(), 0, 0
    for seed in range(part * 30, part * 30 + 30):
        model, x, values, grid = draw_network(seed)
        found = run(model, x)
        scale = float(grid.scale)
        expected = np.vectorize(lambda v: float(F(F(float(v / Fraction(scale))) * grid.scale)), otypes=[float])(values)
        assert found.shape == values.shape
        wrong = found != expected.astype(F)
        assert not wrong.any(), (seed, found[wrong][:4], expected[wrong][:4])
        codes |= {(seed, float(v)) for v in found.ravel()}
        layers += sum(node.op_type in ("Conv", "MatMul", "Gemm") for node in model.graph.node)
        thresholds += len(json.loads(crumb("inspect", tmp_path / "m.onnx", "--json").stdout)["runtime"]["thresholds"])
    assert len(codes) > 120  # networks whose outputs are all alike would show nothing
    # Nor would floats, which stay where values that fall with their sums meet in a pool of maxima.
    assert thresholds > 0.8 * layers

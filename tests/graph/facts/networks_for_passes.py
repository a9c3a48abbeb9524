"""Networks that the passes of `crumb passes` rewrite, between a quantizer and a dense layer: what each of them is there for."""

import numpy as np
from range_networks import GENERAL


def batch_norm(b):
    c = 3
    x = b.quantized([1, c, 4, 4])
    numbers = [b.constant(np.full(c, b.pick(0.001, 1, 1000))) for _ in range(2)]
    x = b.node("Conv", [x, b.constant(b.rng.normal(size=(c, c, 1, 1)))]) if b.chance(0.5) else x
    return b.node("BatchNormalization", [x, *numbers, b.constant(np.zeros(c)), b.constant(np.ones(c))])


def dense(b):
    x = b.quantized([2, 3])
    w, bias = b.constant(b.rng.integers(-2, 3, (3, 4))), b.constant(b.rng.integers(-2, 3, 4))
    if b.chance(0.5):
        return b.node("Gemm", [x, w, bias])
    return b.node("Add", [b.node("MatMul", [x, w]), bias])


def norm(b):
    """A gain for the matrix behind it, and a bias for the bias."""
    if b.opset < 17:
        return dense(b)
    x = b.node("LayerNormalization", [b.quantized([2, 3]), b.constant([2, -0.5, 3]), b.constant([1, 0, -1])])
    product = b.node("MatMul", [x, b.constant(b.rng.integers(-2, 3, (3, 4)))])
    return b.node("Add", [product, b.constant(b.rng.integers(-2, 3, 4))]) if b.chance(0.5) else product


def convolution(b):
    x = b.quantized(b.spatial(4))
    channels = b.inputs[next(reversed(b.inputs))][1]
    return b.node("Conv", [x, b.constant(b.rng.normal(size=(2, channels, 3, 3))), b.constant([1, -2])])


def layout(b):
    """What has one range for all channels before layouts change, and behind it."""
    scale = b.scale()
    shape = [1, 3, 4, 4]
    x, y = (b.quantized(shape, scale, zero=0) for _ in range(2))
    x = b.node("MaxPool", [b.node("Conv", [x, b.constant(b.rng.normal(size=(3, 3, 1, 1)))]) if b.chance(0.3) else x],
               kernel_shape=[2, 2], strides=[1, 1])  # fmt: skip
    y = b.node("AveragePool" if b.chance(0.3) else "MaxPool", [y], kernel_shape=[2, 2], strides=[1, 1])
    slopes = b.constant(np.array([0.25, 1, -2]).reshape(3, 1, 1))
    kind = b.pick("sum", "concat", "add", "mul", "prelu", "clip", "pad", "split", "mean", "softmax", "resize")
    if kind == "concat":
        return b.node("Flatten", [b.node("Concat", [x, y], axis=1)])
    if kind == "add":
        return b.node("Add", [x, b.constant(scale * np.array([1, -2, 30]).reshape(3, 1, 1))])
    if kind == "mul":
        return b.node("Mul", [x, b.pick(slopes, b.constant(np.full((3, 1, 1), -2.0)))])
    if kind == "prelu":
        return b.node("PRelu", [x, b.pick(slopes, b.constant(np.array([1, -2, 3]).reshape(3, 1, 1)))])
    if kind == "clip":
        return b.node("Relu", [b.node("Neg", [x])])
    if kind == "pad":
        number = b.constant(scale * b.pick(0, 40))
        return b.node("Pad", [x, b.ints(0, 0, 1, 0, 0, 0, 0, 1), number] if b.opset >= 11 else [x],
                      **({} if b.opset >= 11 else {"pads": [0, 0, 1, 0, 0, 0, 0, 1], "value": scale * 40}))  # fmt: skip
    if kind == "split":
        extra = {"num_outputs": 3} if b.opset >= 18 else {}
        return b.pick(*b.node("Split", [x], outputs=3, axis=1, **extra))
    if kind == "mean":
        return b.node("GlobalAveragePool", [x])
    if kind == "softmax":
        return b.node("Softmax", [x], axis=1)
    if kind == "resize" and b.opset > 10:
        return b.node("Resize", [x, "", b.constant([1, 1, 2, 2])], mode="nearest")
    return b.node(b.pick("Add", "Sub", "Max") if b.opset >= 12 else "Add", [x, y])


def transposes(b):
    scale = b.scale()
    x = b.quantized([2, 3], scale, zero=0)
    turned = b.node("Transpose", [b.constant(scale * b.rng.integers(-9, 9, (3, 2)))], perm=[1, 0])
    return b.node("Add", [x, turned])


def constants(b):
    """Numbers that nodes compute, which count for ranges."""
    scale = b.scale()
    x = b.quantized([2, 3], scale, zero=0)
    bound = b.node("Mul", [b.constant(scale), b.constant(float(b.rng.integers(1, 5)))])
    made = b.node("Constant", [], value=b.tensor(scale * b.rng.integers(-5, 5, (2, 3))))
    if b.opset >= 11 and b.chance(0.5):
        return b.node("Clip", [x, b.node("Neg", [bound]), bound])
    return b.node("Concat", [x, b.node("Add", [made, bound])], axis=0)


def identities(b):
    x = b.node("Identity", [b.quantized([2, 3])])
    x = b.node("Transpose", [b.node("Transpose", [x], perm=[1, 0])], perm=[1, 0])
    x = b.node("Mul", [x, b.constant(1.0)])
    return b.node("Dropout", [b.node("Reshape", [x, b.ints(2, 3)])])


def recurrent(b):
    op, gates = b.pick(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    x = b.quantized([2, 1, 3])
    w, r = b.constant(b.rng.normal(size=(1, 2 * gates, 3))), b.constant(b.rng.normal(size=(1, 2 * gates, 2)))
    return b.node(op, [x, w, r], hidden_size=2, outputs=2)[b.rng.integers(2)]


def functions(b):
    """Operators that the standard defines by others."""
    options = [("MeanVarianceNormalization", 9), ("Celu", 12), ("HardSwish", 14), ("Mish", 18), ("Gelu", 20)]
    op = b.pick(*[op for op, since in options if since <= b.opset])
    return b.node(op, [b.quantized([1, 2, 3, 4])])


def quantized_between(b):
    """Codes on both sides of what has no row."""
    x = b.quantized([2, 3], 1.0, zero=0)
    x = b.node(b.pick("Softmax", "Sigmoid", "Exp"), [x])
    if b.form != "qonnx":
        return x
    return b.node("Quant", [x, *(b.constant(v) for v in (0.25, 0, 3))], GENERAL, signed=0, narrow=0,
                  rounding_mode="ROUND")  # fmt: skip


NETWORKS = [batch_norm, norm, dense, convolution, layout, layout, layout, transposes, constants, identities, recurrent,
            functions, quantized_between]  # fmt: skip

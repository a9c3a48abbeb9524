"""A maker for every row of the range rules: those of arithmetic, averages and quantizers here, moves beside it."""

import numpy as np
from onnx import TensorProto
from range_makers_of_moves import pool
from range_networks import GENERAL, LAST, MAKERS, maker

__all__ = ["MAKERS"]

# Arithmetic.


@maker("Add", "Sub")
def sums(b, op):
    (x, y), scale = b.twins([2, 3])
    if b.chance(0.4):
        y = b.constant(scale * b.rng.integers(-20, 20, b.pick((3,), (2, 3), (1,))) + (scale / 3 if b.chance(0.3) else 0))
    if b.chance(0.1):
        y = x
    if wraps(b):
        x, y = (b.node("Cast", [b.quantized([2, 3], 1.0, zero=0)], to=TensorProto.INT8) for _ in range(2))
        return b.node("Cast", [b.node(op, [x, y])], to=TensorProto.FLOAT)
    return b.node(op, b.pick([x, y], [y, x]))


def wraps(b):
    """Whether to draw integers of eight bits, which onnxruntime does not add."""
    return b.form == "qonnx" and b.opset >= 14 and b.chance(0.2)


@maker("Sum", "Mean")
def sum_of_many(b, op):
    values, scale = b.twins([2, 3], int(b.rng.integers(1, 5)), other=0.1)
    if b.chance(0.2):
        values.append(b.constant(np.full(3, scale * 4)))
    return b.node(op, values)


@maker("Mul", "Div")
def product(b, op):
    x = b.quantized([2, 3])
    factor = b.pick(0.5, -1.0, 3.0, -0.25, 0.3, 1.0)
    if b.chance(0.2):
        factor = b.pick([0.5, -0.5, 0.5], [0.5, 2.0, 1.0], [-2.0, -2.0, -2.0])
    inputs = [x, b.constant(factor)]
    return b.node(op, inputs if op == "Div" or b.chance(0.5) else inputs[::-1])


@maker("Neg", "Abs", "Relu", "Sign")
def of_one(b, op):
    if op in ("Neg", "Abs") and wraps(b):
        x = b.node("Cast", [b.quantized([2, 3], 1.0, zero=0)], to=TensorProto.INT8)
        return b.node("Cast", [b.node(op, [x])], to=TensorProto.FLOAT)
    return b.node(op, [b.quantized(b.shape())])


@maker("LeakyRelu")
def leaky(b, op):
    return b.node(op, [b.quantized(b.shape())], alpha=float(b.pick(0.25, 0.125, 0.5, 2.0, -1.0, -0.5, 0.01, 0.3, 0.75, 0.0)))


@maker("PRelu")
def parametric(b, op):
    slopes = b.pick([0.25], [0.5, 0.5, 0.5], [1.0, -2.0, 3.0], [0.0, 1.0, 0.0], [0.25, 0.5, 1.0], [0.25, 0.5, 0.1], [-0.25])
    return b.node(op, [b.quantized([2, 3]), b.constant(slopes)])


@maker("Clip")
def clipped(b, op):
    scale = b.scale()
    x = b.quantized([2, 3], scale)
    low, high = sorted(float(scale * n) for n in b.rng.integers(-20, 20, 2))
    if b.chance(0.2):
        low += scale / 3
    if b.chance(0.1):
        low, high = scale * 500, scale * 600
    if b.chance(0.3):
        low, high = 0.0, b.pick(6.0, scale * 6)
    low, high = min(low, high), max(low, high)
    keep = b.pick((1, 1), (1, 0), (0, 1), (1, 1))
    if b.opset < 11:
        return b.node(op, [x], min=low if keep[0] else None, max=high if keep[1] else None)
    if b.chance(0.1):
        return b.node(op, [x, b.node("ReduceMax", [b.value([1])], keepdims=0)])
    return b.node(op, [x, b.constant(low) if keep[0] else "", b.constant(high) if keep[1] else ""][: 3 if keep[1] else 2])


@maker("Cast", since=13)
def cast(b, op):
    x = b.quantized([2, 3], b.pick(1.0, 1.0, 0.5))
    to = b.pick(TensorProto.INT32, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.INT8)
    return b.node(op, [b.node(op, [x], to=to)], to=TensorProto.FLOAT)


# Averages.


@maker("AveragePool")
def average(b, op):
    attributes = pool(b)
    zero = 0
    if b.form == "qonnx":
        zero = b.pick(0, 0, 0, -20)
    else:
        attributes.pop("ceil_mode", None)  # onnxruntime divides as it should not
    return b.node(op, [b.quantized(b.spatial(), zero=zero)], count_include_pad=int(b.rng.integers(2)), **attributes)


@maker("GlobalAveragePool")
def global_average(b, op):
    return b.node(op, [b.quantized(b.spatial())])


@maker("ReduceMean", "ReduceSum")
def reduced(b, op):
    x, keep = b.quantized([2, 3, 4]), int(b.rng.integers(2))
    axes = b.pick([1], [0, 2], [-1], None)
    if axes is None:
        extra = {"noop_with_empty_axes": int(b.rng.integers(2))} if b.opset >= (18 if op == "ReduceMean" else 13) else {}
        return b.node(op, [x], keepdims=keep, **extra)
    if b.opset >= (18 if op == "ReduceMean" else 13):
        return b.node(op, [x, b.ints(*axes)], keepdims=keep)
    return b.node(op, [x], axes=axes, keepdims=keep)


# ONNX's quantizers.


@maker("QuantizeLinear", "DequantizeLinear", forms=("qcdq", "raw"))
def linear(b, op):
    if op == "QuantizeLinear" and b.chance(0.4):
        codes = b.codes(b.value([2, 3]), b.scale(), b.pick(0, 5), b.pick(np.int8, np.uint8), 8)
        return b.node("Cast", [codes], to=TensorProto.FLOAT)
    return b.quantized([2, 3], b.pick(1.0, 0.3, -0.5) if b.form == "raw" else None)


@maker("DynamicQuantizeLinear", forms=("raw",), since=11)
def dynamic(b, op):
    return b.node("Cast", [b.node(op, [b.value([2, 3])], outputs=3)[0]], to=TensorProto.FLOAT)


@maker("QLinearMatMul", "QLinearConv", forms=("raw",))
def linear_product(b, op):
    one, zero = b.constant(1.0), b.constant(0, np.int8)
    shape = [2, 3] if op == "QLinearMatMul" else [1, 3, 4, 4]
    x = b.codes(b.value(shape), 1.0, 0, np.int8, 8)
    w = b.constant(b.rng.integers(-9, 9, (3, 2) if op == "QLinearMatMul" else (2, 3, 1, 1)), np.int8)
    made = b.node(op, [x, one, zero, w, one, zero, b.constant(b.pick(1.0, 20.0)), b.constant(b.pick(0, 3), np.int8)])
    return b.node("DequantizeLinear", [made, b.constant(b.scale()), zero])


# QONNX's own.


@maker("Quant", "IntQuant", domain=GENERAL, forms=("qonnx",))
def quant(b, op):
    if op == "Quant" and b.chance(0.5):
        return b.quantized(b.shape())
    scale, bits = b.pick(0.5, -0.5, 0.3), b.pick(1, 2.5, 3, 5.3, 8, 0.5)
    x = b.value([2, 3])
    b.ranges[x] = 300.0
    inputs = [x, *(b.constant(v) for v in (scale, b.pick(0, 1.5, -4, 0.25), bits))]
    return b.node(op, inputs, GENERAL, signed=int(b.rng.integers(2)), narrow=int(b.rng.integers(2)),
                  rounding_mode=b.pick("ROUND", "FLOOR", "CEIL", "UP", "DOWN", "HALF_UP", "HALF_DOWN"))  # fmt: skip


@maker("BipolarQuant", domain=GENERAL, forms=("qonnx",))
def bipolar(b, op):
    return b.node(op, [b.value([2, 3]), b.constant(b.pick(1.0, 0.3, -2.0))], GENERAL)


@maker("FloatQuant", domain=GENERAL, forms=("qonnx",))
def float_quant(b, op):
    e, m, bias, most = b.pick((4, 3, 7, 448.0), (2, 1, 1, 6.0), (3, 2, 3, 28.0), (2, 3, 1, 7.5), (4, 3, 7, 1e9), (2, 3, 1, 7.3))
    x = b.value([2, 3])
    b.ranges[x] = 1e6
    inputs = [x, *(b.constant(v) for v in (b.pick(1.0, 0.5), e, m, bias, most))]
    has_inf = int(b.chance(0.2))
    return b.node(op, inputs, GENERAL, rounding_mode="ROUND", has_inf=has_inf, has_nan=0, has_subnormal=1,
                  saturation=1 - has_inf)  # fmt: skip


@maker("Trunc", domain=GENERAL, forms=("qonnx",))
def trunc(b, op):
    scale = b.pick(0.5, 0.25, 1.0)
    x = b.quantized([2, 3], scale, zero=0, bits=8)
    if b.chance(0.4):
        x = b.quantized([1, 2, 4, 4], scale, zero=0, bits=4)
        x = b.node("AveragePool", [x], kernel_shape=[2, 2])
        x = b.node("Mul", [x, b.constant(4.0)])
    to = b.pick(4, 6, 3) if b.general == 1 else (b.pick(scale, scale * 4, scale * 64), b.pick(4, 6, 3))
    numbers = (b.pick(scale, scale, scale * 2), 0, 8, *np.atleast_1d(to))
    inputs = [x, *(b.constant(v) for v in numbers)]
    return b.node(op, inputs, GENERAL, rounding_mode=b.pick("FLOOR", "ROUND", "CEIL"))


@maker("MultiThreshold", domain=GENERAL, forms=("qonnx",))
def thresholds(b, op):
    steps = int(b.pick(1, 3, 7, 15, 40))
    x = b.value([2, 3])
    b.ranges[x] = 1000.0
    table = np.sort(b.rng.normal(size=(b.pick(1, 3), steps)), axis=1)
    by, bias = b.pick((1.0, 0.0), (2.0, -1.0), (1.0, -4.0), (0.5, 0.0), (0.5, 0.25), (-1.0, 0.0), (3.0, -6.0), (0.1, 0.7))
    return b.node(op, [x, b.constant(table)], GENERAL, out_dtype=b.pick("INT4", "UINT2", "UINT4", "INT8"),
                  out_scale=by, out_bias=bias)  # fmt: skip


@maker("QuantAvgPool2d", domain=GENERAL, forms=("qonnx",))
def quant_average(b, op):
    bits, signed = int(b.pick(2, 4, 8)), bool(b.rng.integers(2))
    x = b.quantized(b.spatial(4), b.pick(1.0, 1.0, 1.0, 1.0, 0.5), zero=0, bits=bits, signed=signed)
    kernel = int(b.pick(1, 2, 3))
    return b.node(op, [x], GENERAL, kernel=kernel, stride=int(b.pick(1, 2)), signed=int(signed),
                  ibits=b.pick(bits, bits, 2), obits=b.pick(bits, 2, 8), data_layout="NCHW")  # fmt: skip


@maker("Im2Col", domain=GENERAL, forms=("qonnx",))
def columns(b, op):
    shape = [1, 4, 4, 2]
    x = b.quantized(shape, b.pick(1.0, 0.5))
    pads = b.pick([0, 0, 0, 0], [1, 1, 1, 1])
    return b.node(op, [x], GENERAL, kernel_size=[2, 2], stride=[1, 1], pad_amount=pads, dilations=[1, 1], depthwise=0,
                  pad_value=int(b.pick(0, 0, 0, 50)), input_shape=str(tuple(shape)))  # fmt: skip


@maker("MaxPoolNHWC", domain=GENERAL, forms=("qonnx",))
def pool_nhwc(b, op):
    return b.node(op, [b.quantized([1, 5, 5, 2])], GENERAL, kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0])


@maker("MaxPool", domain=LAST, forms=("qonnx",))
def pool_last(b, op):
    return b.node(op, [b.quantized([1, 5, 5, 2])], LAST, kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0])

"""Networks of quantizer -> operator -> dense layer, many in one ONNX file: a maker for every row of the range rules.

Each network ends in `Reshape` to [-1, 1] and a `MatMul` by the codes [[1, -1]]: every sum is a level of the operator's
result, or its opposite. Makers draw attributes, constants and shapes, also such as no rule covers.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

GENERAL = "qonnx.custom_op.general"
LAST = "qonnx.custom_op.channels_last"
WEIGHT_SCALE = 0.5
f32 = np.float32


class Batch:
    """One file. `form`: "qonnx", "qcdq", or "raw": QCDQ beside an operator that keeps it from being read as QONNX."""

    def __init__(self, rng, opset, form):
        self.rng, self.opset, self.form = rng, opset, form
        self.nodes, self.constants, self.inputs, self.heads, self.ranges = [], [], {}, {}, {}
        self.rows, self.count = {}, 0

    def pick(self, *options):
        return options[self.rng.integers(len(options))]

    def chance(self, p):
        return self.rng.random() < p

    def name(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def constant(self, value, dtype=np.float32):
        name = self.name("c")
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def ints(self, *values):
        return self.constant(values, np.int64)

    def node(self, op, inputs, domain="", outputs=1, **attributes):
        made = [self.name("v") for _ in range(outputs)]
        attributes = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(op, inputs, made, name=self.name("n"), domain=domain, **attributes))
        return made[0] if outputs == 1 else made

    def shape(self, rank=None):
        rank = rank or int(self.rng.integers(2, 5))
        return [int(n) for n in self.rng.integers(1, 5, rank)]

    def spatial(self, low=3, high=7):
        return [1, int(self.rng.integers(1, 4)), *(int(n) for n in self.rng.integers(low, high, 2))]

    def scale(self):
        return float(self.pick(1.0, 0.5, 0.25, 2.0**-6, 0.3, 0.0117, 4.0))

    def value(self, shape):
        name = self.name("x")
        self.inputs[name] = shape
        return name

    def quantized(self, shape, scale=None, zero=None, bits=None, signed=None):
        """A quantizer behind an input of the file."""
        scale = self.scale() if scale is None else scale
        x = self.value(shape)
        signed = bool(self.rng.integers(2)) if signed is None else signed
        if self.form == "qonnx":
            bits = int(self.pick(1, 2, 3, 4, 8)) if bits is None else bits
            zero = self.pick(0, 0, 0, 1, -2, 0.5) if zero is None else zero
            inputs = [x, *(self.constant(v) for v in (scale, zero, bits))]
            made = self.node("Quant", inputs, GENERAL, signed=int(signed), narrow=int(self.chance(0.3)),
                             rounding_mode=self.pick("ROUND", "FLOOR", "CEIL", "HALF_UP"))  # fmt: skip
            self.ranges[x] = scale * 300
            return made
        container = np.int8 if signed else np.uint8
        zero = self.pick(0, 0, 0, 3, 100) if zero is None else zero
        made = self.codes(x, scale, zero, container, bits)
        return self.node("DequantizeLinear", [made, self.constant(scale), self.constant(zero, container)])

    def codes(self, x, scale, zero, container, bits=None):
        self.ranges[x] = scale * 300
        made = self.node("QuantizeLinear", [x, self.constant(scale), self.constant(zero, container)])
        bits = int(self.pick(2, 3, 4, 8)) if bits is None else bits
        if bits < 8 and self.opset >= 12:
            low = -(2 ** (bits - 1)) if container is np.int8 else 0
            high = 2 ** (bits - 1) - 1 if container is np.int8 else 2**bits - 1
            made = self.node("Clip", [made, self.constant(low, container), self.constant(high, container)])
        return made

    def twins(self, shape, count=2, other=0.3, **fixed):
        """Quantized values of one scale (mostly)."""
        scale = self.scale()
        if self.chance(0.85):
            fixed.setdefault("zero", 0)
        made = [self.quantized(shape, scale, **fixed)]
        for _ in range(count - 1):
            made.append(self.quantized(shape, scale if not self.chance(other) else self.scale(), **fixed))
        return made, scale

    def finish(self, row, value):
        """The dense layer behind it."""
        flat = self.node("Reshape", [value, self.ints(-1, 1)])
        codes = np.array([[1, -1]])
        if self.form == "qonnx":
            w = self.constant(codes * WEIGHT_SCALE)
            w = self.node("Quant", [w, *(self.constant(v) for v in (WEIGHT_SCALE, 0, 4))], GENERAL,
                          signed=1, narrow=1, rounding_mode="ROUND")  # fmt: skip
        else:
            w = self.node("DequantizeLinear", [self.constant(codes, np.int8), self.constant(WEIGHT_SCALE)])
        name = f"layer{len(self.heads)}"
        self.nodes.append(helper.make_node("MatMul", [flat, w], [f"y{len(self.heads)}"], name=name))
        self.heads[name] = f"y{len(self.heads)}"
        self.rows[name] = row

    def model(self):
        """Its one input "x" holds those of all networks behind each other."""
        cut, constants, at = [], list(self.constants), 0
        for name, shape in self.inputs.items():
            size = int(np.prod(shape))
            parts = {f"{name}_a": [at], f"{name}_b": [at + size], f"{name}_s": shape}
            constants += [numpy_helper.from_array(np.array(value, np.int64), key) for key, value in parts.items()]
            cut.append(helper.make_node("Slice", ["x", f"{name}_a", f"{name}_b"], [f"{name}_p"], name=f"{name}_cut"))
            cut.append(helper.make_node("Reshape", [f"{name}_p", f"{name}_s"], [name], name=f"{name}_shape"))
            at += size
        graph = helper.make_graph(
            [*cut, *self.nodes], "ranges", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [at])],
            [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in self.heads.values()], constants,
        )  # fmt: skip
        imports = [helper.make_opsetid(d, v) for d, v in (("", self.opset), (GENERAL, 1), (LAST, 1))]
        return helper.make_model(graph, opset_imports=imports, ir_version=8 if self.opset < 19 else 10)

    def sample(self, kind):
        """Inputs of the file: "random", "mixed" extremes, or "flat": each input all high or all low."""
        made = []
        for name, shape in self.inputs.items():
            most = self.ranges.get(name, 1000.0)
            if kind == "random":
                x = self.rng.normal(size=shape) * most / self.pick(600, 60, 6)
            elif kind == "mixed":
                x = np.where(self.rng.random(shape) < 0.5, 1, -1) * most
            else:
                x = np.full(shape, self.pick(-1, 1) * most)
            made.append(x.astype(np.float32).ravel())
        return np.concatenate(made)


def only_outputs(model, outputs):
    """The part of the model that makes these outputs."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    wanted, nodes = set(outputs), []
    for node in reversed(model.graph.node):
        if wanted & set(node.output):
            nodes.append(node)
            wanted |= set(node.input)
    for field, keep in (("node", nodes[::-1]), ("output", [o for o in model.graph.output if o.name in set(outputs)]),
                        ("input", [i for i in model.graph.input if i.name in wanted]),
                        ("initializer", [c for c in model.graph.initializer if c.name in wanted])):  # fmt: skip
        made.graph.ClearField(field)
        getattr(made.graph, field).extend(keep)
    return made


MAKERS = {}


def maker(*ops, domain="", forms=("qonnx", "qcdq", "raw"), since=10):
    def keep(function):
        for op in ops:
            MAKERS[(domain, op)] = (lambda b, op=op: function(b, op), forms, since)
        return function

    return keep


# What moves elements.


@maker("Reshape", "Flatten", "Identity", "Transpose")
def plain(b, op):
    shape = b.shape()
    x = b.quantized(shape)
    if op == "Reshape":
        return b.node(op, [x, b.ints(-1, shape[0])])
    return b.node(op, [x], **({"perm": [int(p) for p in b.rng.permutation(len(shape))]} if op == "Transpose" else {}))


@maker("Squeeze", "Unsqueeze")
def squeezed(b, op):
    shape = [1, *b.shape(2)]
    x = b.quantized(shape)
    if b.opset >= 13:
        return b.node(op, [x, b.ints(0)])
    return b.node(op, [x], axes=[0])


@maker("Expand", "Tile")
def repeated(b, op):
    x = b.quantized(b.shape(2))
    return b.node(op, [x, b.ints(2, 1, 1) if op == "Expand" else b.ints(2, 3)])


@maker("Slice")
def slice_of(b, op):
    x = b.quantized([3, *b.shape(2)])
    return b.node(op, [x, b.ints(-1 if b.chance(0.5) else 0), b.ints(3), b.ints(0), b.ints(1)])


@maker("Split")
def parts(b, op):
    x = b.quantized([4, *b.shape(1)])
    extra = {"num_outputs": 2} if b.opset >= 18 else {}
    return b.pick(*b.node(op, [x], outputs=2, axis=0, **extra))


@maker("Gather", "GatherElements", "GatherND", since=12)
def gathered(b, op):
    x = b.quantized([4, 3])
    index = {"Gather": [0, 3, -1], "GatherElements": [[0, 1, 2], [3, 0, 1]], "GatherND": [[1], [2], [0]]}[op]
    return b.node(op, [x, b.constant(index, np.int64)])


@maker("Compress")
def compressed(b, op):
    return b.node(op, [b.quantized([4, 3]), b.constant([1, 0, 1, 1], bool)], axis=0)


@maker("ReverseSequence")
def reversed_part(b, op):
    return b.node(op, [b.quantized([4, 3, 2]), b.ints(1, 4, 2)])


@maker("TopK", since=11)
def top(b, op):
    return b.node(op, [b.quantized([3, 4]), b.ints(4)], outputs=2, largest=int(b.rng.integers(2)))[0]


@maker("DepthToSpace", "SpaceToDepth")
def blocks(b, op):
    return b.node(op, [b.quantized([1, 4, 4, 2])], blocksize=2)


@maker("Resize")
def resized(b, op):
    x = b.quantized(b.spatial())
    mode = b.pick(*["nearest"] * 4, "linear", "cubic")
    if b.opset == 10:
        return b.node(op, [x, b.constant([1, 1, 2, 2])], mode=b.pick("nearest", "nearest", "linear"))
    crop = b.opset >= 11 and mode != "cubic" and b.chance(0.4)
    roi = b.constant([0, 0, -0.5, -0.5, 1, 1, 1.5, 1.5])
    frame = "tf_crop_and_resize" if crop else b.pick("half_pixel", "asymmetric", "align_corners")
    outside = {"extrapolation_value": float(b.pick(0.0, 0.0, 8.0, 0.37))} if crop else {}
    return b.node(op, [x, roi, b.constant([1, 1, 2, 1.5])], mode=mode, coordinate_transformation_mode=frame, **outside)


@maker("Dropout", since=12)
def dropped(b, op):
    x = b.quantized(b.shape())
    if b.chance(0.5):
        return b.node(op, [x])
    return b.node(op, [x, b.constant(0.5), b.constant(b.chance(0.5), bool)])


@maker("Pad", since=11)
def padded(b, op):
    shape, scale = b.shape(2), b.scale()
    x = b.quantized(shape, scale)
    mode = b.pick("constant", "constant", "constant", "edge")
    inputs = [x, b.ints(1, 0, 0, 2)]
    if mode == "constant" and b.chance(0.7):
        number = b.pick(0.0, 0.0, scale * 2, scale * -3, scale * 200, 0.123 * scale)
        inputs.append(b.constant(number) if b.chance(0.8) else b.node("ReduceMax", [b.value([1])], keepdims=0, axes=None))
    return b.node(op, inputs, mode=mode)


@maker("Trilu", since=14)
def triangle(b, op):
    return b.node(op, [b.quantized([3, 4])], upper=int(b.rng.integers(2)))


@maker("Concat")
def joined(b, op):
    (x, y), scale = b.twins([2, 3])
    if b.chance(0.2):
        y = b.constant(np.full([2, 3], scale * b.pick(1, 40, 0.5)))
    return b.node(op, [x, y], axis=int(b.rng.integers(2)))


@maker("Where")
def either(b, op):
    (x, y), _ = b.twins([2, 3])
    return b.node(op, [b.constant(b.rng.random((2, 3)) < 0.5, bool), x, y])


@maker("Scatter", "ScatterElements", "ScatterND", since=10)
def scattered(b, op):
    if op == "Scatter":
        op = "Scatter" if b.opset < 11 else "ScatterElements"
    if op != "Scatter" and b.opset < 11:
        op = "Scatter"
    (x,), scale = b.twins([4, 3], 1)
    if b.chance(0.5):
        y = b.quantized([2, 3], scale if b.chance(0.9) else b.scale(), zero=0)
    else:
        y = b.constant(np.full([2, 3], scale * b.pick(1, -40, 500, 7, 0.5)))
    reduction = b.pick(None, None, "none", "add", "mul") if b.opset >= 16 else None
    index = b.constant([[1], [3]], np.int64) if op == "ScatterND" else b.constant([[0, 1, 2], [3, 0, 1]], np.int64)
    return b.node(op, [x, index, y], reduction=reduction)


@maker("Max", "Min", since=12)
def extreme(b, op):
    (x, y), scale = b.twins([2, 3])
    return b.node(op, [x, y if b.chance(0.7) else b.constant(scale * b.pick(1, -40, 500, 0.5))])


@maker("ReduceMax", "ReduceMin")
def one_of(b, op):
    return b.node(op, [b.quantized([2, 3, 2])], keepdims=int(b.rng.integers(2)))


@maker("MaxPool")
def max_pool(b, op):
    return b.node(op, [b.quantized(b.spatial())], **pool(b))


@maker("GlobalMaxPool")
def global_max(b, op):
    return b.node(op, [b.quantized(b.spatial())])


def pool(b):
    kernel = [int(k) for k in b.rng.integers(1, 4, 2)]
    attributes = {"kernel_shape": kernel, "strides": [int(s) for s in b.rng.integers(1, 4, 2)]}
    if b.chance(0.4):
        attributes["pads"] = [min(k - 1, 1) for k in kernel] * 2
    elif b.chance(0.2):
        attributes |= {"auto_pad": "SAME_UPPER", "strides": [1, 1]}
    elif b.chance(0.3):
        attributes["ceil_mode"] = 1
    return attributes


# Arithmetic.


@maker("Add", "Sub")
def sums(b, op):
    (x, y), scale = b.twins([2, 3])
    if b.chance(0.4):
        y = b.constant(scale * b.rng.integers(-20, 20, b.pick((3,), (2, 3), (1,))) + (scale / 3 if b.chance(0.3) else 0))
    if b.chance(0.1):
        y = x
    return b.node(op, b.pick([x, y], [y, x]))


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
    return b.node(op, [b.quantized(b.shape())])


@maker("LeakyRelu")
def leaky(b, op):
    return b.node(op, [b.quantized(b.shape())], alpha=float(b.pick(0.25, 0.125, 0.5, 2.0, -1.0, -0.5, 0.01, 0.0)))


@maker("PRelu")
def parametric(b, op):
    slopes = b.pick([0.25], [0.5, 0.5, 0.5], [1.0, -2.0, 3.0], [0.0, 1.0, 0.0], [0.25, 0.5, 0.1], [-0.25])
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
    to = b.pick(TensorProto.INT32, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT64)
    return b.node(op, [b.node(op, [x], to=to)], to=TensorProto.FLOAT)


# Averages.


@maker("AveragePool")
def average(b, op):
    attributes = pool(b)
    attributes.pop("ceil_mode", None)
    return b.node(op, [b.quantized(b.spatial(), zero=0)], count_include_pad=int(b.rng.integers(2)), **attributes)


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
    if b.chance(0.5):
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
    return b.node(op, inputs, GENERAL, rounding_mode="ROUND", has_inf=0, has_nan=0, has_subnormal=1, saturation=1)


@maker("Trunc", domain=GENERAL, forms=("qonnx",))
def trunc(b, op):
    scale = b.pick(0.5, 0.25, 1.0)
    x = b.quantized([2, 3], scale, zero=0, bits=8)
    if b.chance(0.4):
        x = b.quantized([1, 2, 4, 4], scale, zero=0, bits=4)
        x = b.node("AveragePool", [x], kernel_shape=[2, 2])
        x = b.node("Mul", [x, b.constant(4.0)])
    inputs = [x, *(b.constant(v) for v in (b.pick(scale, scale, scale * 2), 0, 8, b.pick(4, 6, 3)))]
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
    x = b.quantized(b.spatial(4), 1.0, zero=0, bits=bits, signed=signed)
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

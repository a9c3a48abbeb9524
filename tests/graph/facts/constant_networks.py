"""Networks of constants alone, many in one ONNX file: for every operator that folding knows, with any attributes.

Makers draw types, shapes (scalars and empty ones, too), attributes and numbers, take what other networks of the file
made where it fits, and give back the values that they made.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

f32, f64, i64, i32 = np.float32, np.float64, np.int64, np.int32
FLOATS = [f32, f32, f64]
ANY = [f32, f64, i64, i32, np.int8, np.uint8]
EXTREMES = {f32: [3e38, 1e-40, np.inf, -np.inf, np.nan, 16777217], f64: [1e300, np.inf, np.nan, 1 / 3, 2.0**60],
            i64: [2**31 - 1, 2**31, -(2**31), 2**62 + 1, 2**53 + 1], i32: [2**31 - 1, -(2**31), 2**24 + 1],
            np.int8: [127, -128], np.uint8: [255, 128], np.uint32: [2**32 - 1, 2**31], np.float16: [65504, 0.1, 2049]}  # fmt: skip


def numbers(text):
    """ "0x1p+0 nan" as floats: what facts() says."""
    return [float.fromhex(word) for word in text.split()]


class Batch:
    def __init__(self, rng, opset):
        self.rng, self.opset = rng, opset
        self.nodes, self.constants, self.rows, self.of_row = [], [], {}, None
        self.scales = {}  # of values that are levels times a scale, as it broadcasts to them
        self.made = {}  # what may be taken again: {name: (dtype, shape)}
        self.count = 0

    def pick(self, *options):
        return options[self.rng.integers(len(options))]

    def chance(self, p):
        return self.rng.random() < p

    def whole(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def name(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def constant(self, value, dtype=f32):
        array = np.asarray(value, dtype)
        if self.chance(0.1):  # a node instead of an initializer
            return self.node("Constant", [], value=numpy_helper.from_array(array))
        name = self.name("c")
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def ints(self, *values):
        return self.constant(values, i64)

    def node(self, op, inputs, domain="", outputs=1, **attributes):
        made = [self.name("v") for _ in range(outputs)]
        attributes = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(op, inputs, made, name=self.name("n"), domain=domain, **attributes))
        return made[0]

    def shape(self, low=0, high=4, empty=0.05):
        rank = self.whole(low, high)
        return [self.whole(1, 4) if not self.chance(empty) else 0 for _ in range(rank)]

    def array(self, dtype, shape, extreme=0.1):
        """Small numbers with ties and negative ones, and now and then the type's extremes."""
        if np.issubdtype(dtype, np.integer):
            low = 0 if np.issubdtype(dtype, np.unsignedinteger) else -12
            x = self.rng.integers(low, self.pick(4, 12, 100), shape).astype(dtype)
        else:
            x = self.rng.normal(size=shape) * self.pick(0.3, 3, 40)
            x = np.where(self.rng.random(shape) < 0.4, np.round(x * 2) / 2, x).astype(dtype)
        if x.size and self.chance(extreme):
            x.flat[self.whole(0, x.size - 1)] = self.pick(*EXTREMES[dtype])
        return x

    def operand(self, dtype, shape, extreme=0.1):
        """New, or what another network made."""
        fitting = [name for name, known in self.made.items() if known == (dtype, tuple(shape))]
        if fitting and self.chance(0.3):
            return self.pick(*fitting)
        return self.constant(self.array(dtype, shape, extreme), dtype)

    def taken(self, types, low=0, high=4):
        """(a value, its type and shape): in half of all networks what another one made."""
        fitting = [name for name, (dtype, shape) in self.made.items() if dtype in types and low <= len(shape) <= high]
        if fitting and self.chance(0.5):
            name = self.pick(*fitting)
            return name, self.made[name][0], list(self.made[name][1])
        dtype, shape = self.pick(*types), self.shape(low, high)
        return self.constant(self.array(dtype, shape), dtype), dtype, shape

    def finish(self, row, value, dtype=None, shape=None):
        """The network's value; of a type and shape that others may take it by."""
        self.rows[value] = row
        if dtype is not None:
            self.made[value] = (dtype, tuple(shape))

    def model(self):
        outputs = [helper.make_tensor_value_info(name, 0, None) for name in self.rows]
        for output in outputs:
            output.ClearField("type")
        graph = helper.make_graph(self.nodes, "constants", [], outputs, self.constants)
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid("qonnx.custom_op.general", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8 if self.opset < 19 else 10)


def broadcast_pair(b):
    """Two shapes that broadcast to one, and that."""
    whole = b.shape(0, 4)
    parts = [[1 if b.chance(0.3) else n for n in whole][b.pick(0, 0, b.whole(0, len(whole))):] for _ in range(2)]
    return parts, list(np.broadcast_shapes(*map(tuple, parts)))


def two(op, types):
    def make(b):
        (first, second), whole = broadcast_pair(b)
        dtype = b.pick(*types)
        x = b.operand(dtype, first)
        if op == "Div" and np.issubdtype(dtype, np.integer):  # neither by 0 nor by -1, which processors trap
            y = b.constant(b.rng.integers(2, 9, second) * b.rng.choice([-1, 1], second), dtype)
        else:
            y = b.operand(dtype, second)
        y = b.node(op, [x, y])
        b.finish((op, np.dtype(dtype).name), y, dtype, whole)

    return make


def compared(b):
    """A comparison, and what logic makes of two."""
    op = b.pick("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
    (first, second), whole = broadcast_pair(b)
    if b.opset < (11 if op == "Equal" else 9 if op in ("Less", "Greater") else 12):
        return
    dtypes = [f32, f64, i64, i32]
    x, y = (b.node(op, [b.operand(dtype, first), b.operand(dtype, second)]) for dtype in (b.pick(*dtypes), b.pick(*dtypes)))
    b.finish((op, ""), x)
    logic = b.pick("And", "Or", "Xor")
    b.finish((logic, ""), b.node(logic, [x, y]))
    b.finish(("Not", ""), b.node("Not", [y]))
    turned = b.node("Cast", [x], to=TensorProto.INT64)
    b.finish(("Cast", "bool"), turned, i64, whole)


def remainder(b):
    (first, second), whole = broadcast_pair(b)
    if b.opset < 10:
        return
    dtype = b.pick(i64, i32)
    y = b.constant(b.rng.integers(2, 9, second) * b.rng.choice([-1, 1], second), dtype)
    fmod = b.pick(None, 0, 1)
    b.finish(("Mod", "fmod" if fmod else ""), b.node("Mod", [b.operand(dtype, first), y], fmod=fmod), dtype, whole)


def where(b):
    (first, second), _ = broadcast_pair(b)
    if b.opset < 9:
        return
    condition = b.constant(b.rng.random(b.pick([], first, second)) < 0.5, np.bool_)
    dtype = b.pick(i64, i32)
    b.finish(("Where", ""), b.node("Where", [condition, b.operand(dtype, first), b.operand(dtype, second)]))


def power(b):
    (first, second), _ = broadcast_pair(b)
    base = b.pick(f32, f32, f64, i64, i32)
    base = base if b.opset >= 12 else b.pick(f32, f64)
    exponent = b.pick(base, base, f32, i64, f64) if b.opset >= 12 else base
    x = b.array(base, first, 0)
    y = b.rng.integers(0, 5, second) if b.chance(0.6) or exponent in (i64, i32) else b.rng.normal(size=second)
    value = b.node("Pow", [b.constant(x, base), b.constant(y, exponent)])
    b.finish(("Pow", "same" if base == exponent else "mixed"), value)


def one(op, types, again=True, since=1):
    def make(b):
        if b.opset < since:
            return
        x, dtype, shape = b.taken(types)
        y = b.node(op, [x])
        b.finish((op, np.dtype(dtype).name), y, *([dtype, shape] if again else []))

    return make


def cast(b):
    x, dtype, shape = b.taken([f32, f64, i64, i32, np.int8, np.uint8, np.float16])
    to = b.pick(f32, f64, i64, i32, np.int8, np.bool_)
    y = b.node("Cast", [x], to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))
    b.finish(("Cast", np.dtype(to).name), y, to, shape)


def transpose(b):
    x, dtype, shape = b.taken(ANY)
    given = b.chance(0.7)
    perm = [int(i) for i in b.rng.permutation(len(shape))] if given else list(range(len(shape)))[::-1]
    y = b.node("Transpose", [x], perm=perm if given and shape else None)
    b.finish(("Transpose", ""), y, dtype, [shape[i] for i in perm])


def reshape(b):
    x, dtype, shape = b.taken(ANY if b.opset >= 9 else FLOATS)
    kind = b.pick("Reshape", "Flatten", "Unsqueeze", "Squeeze")
    if kind == "Reshape":
        y = b.node("Reshape", [x, b.ints(*([-1] if b.chance(0.5) and 0 not in shape else [0, *shape[1:]] if shape else []))])
    elif kind == "Flatten":
        y = b.node("Flatten", [x], axis=b.whole(-len(shape), len(shape)) if b.opset >= 11 else b.whole(0, len(shape)))
    elif b.opset >= 13:
        axes = [b.whole(0, len(shape))] if kind == "Unsqueeze" else [i for i, n in enumerate(shape) if n == 1]
        y = b.node(kind, [x, b.ints(*axes)])
    else:
        axes = [b.whole(0, len(shape))] if kind == "Unsqueeze" else [i for i, n in enumerate(shape) if n == 1]
        y = b.node(kind, [x], axes=axes or None)
    b.finish((kind, ""), y)


def clip(b):
    types = FLOATS if b.opset < 12 else [*FLOATS, i64, i32, np.int8, np.uint8]
    types = [f32] if b.opset < 12 else types
    x, dtype, shape = b.taken(types)
    rare = 0.1
    if dtype == i64:  # onnxruntime 1.31 leaves 2^31 where it is, whatever the bound
        x, rare = b.constant(b.array(dtype, shape, 0), dtype), 0
    low, high = (b.array(dtype, [], rare) if b.chance(0.75) else None for _ in range(2))
    if low is not None and high is not None and high < low:
        low, high = high, low
    if b.opset < 11:
        low, high = (v if v is None or np.isfinite(v) else None for v in (low, high))
        y = b.node("Clip", [x], **{key: float(v) for key, v in (("min", low), ("max", high)) if v is not None})
    else:
        y = b.node("Clip", [x, *("" if v is None else b.constant(v, dtype) for v in (low, high))])
    b.finish(("Clip", "attributes" if b.opset < 11 else np.dtype(dtype).name), y, dtype, shape)


WHOLE = [i64, i64, i32, np.int8, np.uint8]


def vector_or_whole(b, low=0, high=4):
    """A type and a shape that are computed: vectors of any type, whole numbers of any rank."""
    if b.chance(0.5):
        return b.pick(*ANY), [b.whole(low, 6)]
    return b.pick(*WHOLE), [max(n, low) for n in b.shape(1, high)]


def axis_of(b, shape):
    axis = b.whole(0, len(shape) - 1)
    return axis, axis - len(shape) if b.opset >= 11 and b.chance(0.3) else axis


def concat(b):
    dtype, shape = vector_or_whole(b)
    axis, said = axis_of(b, shape)
    parts = [[*shape[:axis], b.whole(0, 4), *shape[axis + 1 :]] for _ in range(b.whole(1, 4))]
    y = b.node("Concat", [b.operand(dtype, part) for part in parts], axis=said)
    shape[axis] = sum(part[axis] for part in parts)
    b.finish(("Concat", "vector" if len(shape) == 1 else ""), y, dtype, shape)


def slice_(b):
    dtype, shape = vector_or_whole(b)
    dtype = b.pick(f32, f64, i64, i32) if len(shape) == 1 else b.pick(i64, i32)
    x = b.operand(dtype, shape)
    axes = sorted(int(i) for i in b.rng.permutation(len(shape))[: b.whole(1, len(shape))])
    starts, ends = [], []
    for axis in axes:
        n = shape[axis]
        for i, list_ in enumerate((starts, ends)):
            list_.append(int(b.pick(b.whole(-n - 2, n + 2), b.whole(-n, n), 0, 2**31 - 1 if i else 0, -(2**31) + 1 if i else 0)))
    whole = axes == list(range(len(shape)))
    if b.opset < 10:
        y = b.node("Slice", [x], starts=starts, ends=ends, axes=None if whole and b.chance(0.4) else axes)
    else:
        index = b.pick(i64, i64, i32)
        inputs = [x, b.constant(starts, index), b.constant(ends, index)]
        if not whole or b.chance(0.6):
            said = [a - len(shape) if b.chance(0.2) else a for a in axes]
            inputs.append("" if whole and b.chance(0.3) else b.constant(said, index))
            if b.chance(0.6):
                inputs.append(b.constant([b.pick(1, 1, 2, 3, -1, -2) for _ in axes], index))
        y = b.node("Slice", inputs)
    b.finish(("Slice", "attributes" if b.opset < 10 else "vector" if len(shape) == 1 else ""), y)


def gather(b):
    dtype, shape = vector_or_whole(b, 1)
    axis, said = axis_of(b, shape)
    n, at = shape[axis], b.shape(0, 3)
    if n == 0 or not all(shape):
        shape = [max(k, 1) for k in shape]
        n = shape[axis]
    low = -n if b.opset >= 11 else 0
    index = b.constant(b.rng.integers(low, n, at), b.pick(i64, i32))
    y = b.node("Gather", [b.operand(dtype, shape), index], axis=None if said == 0 and b.chance(0.3) else said)
    b.finish(("Gather", "vector" if len(shape) == 1 else ""), y, dtype, [*shape[:axis], *at, *shape[axis + 1 :]])


def filled(b):
    if b.opset < 9:
        return
    shape, dtype = b.shape(0, 3), b.pick(None, *ANY)
    value = None if dtype is None else numpy_helper.from_array(b.array(dtype, [1]))
    b.finish(("ConstantOfShape", ""), b.node("ConstantOfShape", [b.ints(*shape)], value=value), dtype or f32, shape)


def expand(b):
    (first, second), whole = broadcast_pair(b)
    if b.opset < 8:
        return
    dtype = b.pick(f32, f64, i64, i32)
    b.finish(("Expand", ""), b.node("Expand", [b.operand(dtype, first), b.ints(*second)]), dtype, whole)


def counted(b):
    if b.opset < 11:
        return
    dtype, step = b.pick(i64, i32), b.pick(1, 1, 2, 3, -1, -4)
    start = b.whole(-20, 20)
    values = [start, start + step * b.whole(-2, 8) + b.whole(-2, 2), step]
    b.finish(("Range", ""), b.node("Range", [b.constant(value, dtype) for value in values]))


def dropout(b):
    x, dtype, shape = b.taken([f32] if b.opset < 10 else FLOATS)
    if b.opset < 7:
        y = b.node("Dropout", [x], is_test=1, ratio=0.4)
    elif b.opset < 12:
        y = b.node("Dropout", [x], ratio=0.4)
    else:
        rest = [b.constant(0.4), b.constant(False, bool)][: b.whole(0, 2)]
        y = b.node("Dropout", [x, *(rest if b.chance(0.6) or len(rest) < 2 else ["", rest[1]])])
    b.finish(("Dropout", ""), y, dtype, shape)


def identity(b):
    x, dtype, shape = b.taken(ANY)
    b.finish(("Identity", ""), b.node("Identity", [x]), dtype, shape)


def shape_of(b):
    x, _, shape = b.taken(ANY)
    op = b.pick("Shape", "Shape", "Size")
    ends = {"start": b.whole(-5, 5), "end": b.whole(-5, 5)} if op == "Shape" and b.opset >= 15 and b.chance(0.6) else {}
    b.finish((op, ""), b.node(op, [x], **ends), *([] if ends else [i64, [len(shape)] if op == "Shape" else []]))


def parameters(b, shape):
    """Scale and zero point of one number or along an axis: (their shape, the attribute)."""
    if b.opset < 13 or not shape or b.chance(0.4):
        return b.pick([], [], [1] if len(shape) == 1 else []), {}
    axis = b.whole(-len(shape), len(shape) - 1)
    if len(shape) > 1 and b.chance(0.3):
        return [shape[1]], {}
    return [shape[axis]], {"axis": axis}


def along(scale, shape, axis):
    """The scale as it broadcasts to the shape."""
    if scale.size == 1:
        return scale.reshape([])
    whole = [1] * len(shape)
    whole[axis.get("axis", 1)] = -1
    return scale.reshape(whole)


def quantize_linear(b):
    if b.opset < 10:
        return
    shape = b.shape(0, 4)
    part, axis = parameters(b, shape)
    container = b.pick(np.uint8, np.int8) if b.opset < 21 else b.pick(np.uint8, np.int8, np.uint16, np.int16)
    scale = b.pick(b.rng.uniform(0.05, 2, part), 2.0 ** b.rng.integers(-4, 2, part)).astype(f32)
    info = np.iinfo(container)
    x = b.array(f32, shape, 0) * b.pick(1, 10, 1000)
    if b.chance(0.5) and part in ([], [1]):
        x = (b.rng.integers(-600, 600, shape) / 2 * scale.reshape(-1)[:1]).astype(f32).reshape(shape)  # ties
    inputs = [b.constant(x), b.constant(scale)]
    shifted = container != np.uint8 or b.chance(0.7)
    if shifted:
        inputs.append(b.constant(b.rng.integers(info.min, info.max, part, endpoint=True), container))
    elif b.chance(0.3):
        inputs.append("")
    y = b.node("QuantizeLinear", inputs, **axis)
    b.finish(("QuantizeLinear", "axis" if part not in ([], [1]) else ""), y, container, shape)
    if b.chance(0.4):
        back = b.node("DequantizeLinear", [y, *inputs[1:]], **axis)
        b.scales[back] = along(scale, shape, axis)
        b.finish(("DequantizeLinear", "pair"), back, f32, shape)


def dequantize_linear(b):
    if b.opset < 10:
        return
    container = b.pick(np.uint8, np.int8, i32) if b.opset < 21 else b.pick(np.uint8, np.int8, i32, np.int16, np.uint16)
    shape = b.shape(0, 4)
    part, axis = parameters(b, shape)
    info = np.iinfo(container)
    most = b.pick(2**31 - 1, 2**20) if container == i32 else info.max
    x = b.rng.integers(max(info.min, -most), most, shape, endpoint=True)
    scale = (b.rng.normal(size=part) * b.pick(0.01, 1, 100)).astype(f32)
    inputs = [b.constant(x, container), b.constant(scale)]
    if container == i32:
        if b.chance(0.3):
            inputs.append(b.constant(np.zeros(part), container))
    elif b.chance(0.7):
        inputs.append(b.constant(b.rng.integers(info.min, info.max, part, endpoint=True), container))
    y = b.node("DequantizeLinear", inputs, **axis)
    b.scales[y] = along(scale, shape, axis)
    b.finish(("DequantizeLinear", "axis" if part not in ([], [1]) else ""), y, f32, shape)
    if b.chance(0.5):
        perm = [int(i) for i in b.rng.permutation(len(shape))]
        turned = b.node("Transpose", [y], perm=perm or None)
        b.scales[turned] = b.scales[y].transpose(perm) if b.scales[y].size > 1 else b.scales[y]
        b.finish(("Transpose", "levels"), turned, f32, [shape[i] for i in perm])


NUMBERS = [f32, f32, f64, i64, i32]
MAKERS = [
    *(two(op, NUMBERS) for op in ("Add", "Sub", "Mul", "Div")),
    two("Mul", [np.float16]),
    one("Sqrt", [np.float16], again=False),
    *(one(op, FLOATS) for op in ("Sqrt", "Floor", "Ceil", "Reciprocal")),
    one("Round", FLOATS, since=11),
    *(one(op, [*NUMBERS, np.int8]) for op in ("Neg", "Abs")),
    one("Exp", FLOATS, again=False),
    one("Relu", FLOATS),
    compared, compared, remainder, where,
    power, cast, transpose, transpose, reshape, reshape, clip, clip, concat, slice_, slice_, gather, filled, expand, counted, dropout, identity,
    shape_of, quantize_linear, quantize_linear, dequantize_linear, dequantize_linear,
]  # fmt: skip

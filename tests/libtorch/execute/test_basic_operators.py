"""Element-wise, constant, matrix and reduction operators where ONNX's own suite does not look: old operator sets,
every element type, empty tensors, extreme numbers. Expected values: numpy by the standard's words."""

import ml_dtypes
import numpy as np
import pytest
from basic_cases import cases_of
from onnx import TensorProto, helper, numpy_helper

SIGNED = [np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float16, np.float32, np.float64]
SMALL = {
    TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
    TensorProto.FLOAT4E2M1: ml_dtypes.float4_e2m1fn,
}
TINY = {
    TensorProto.INT4: ml_dtypes.int4,
    TensorProto.UINT4: ml_dtypes.uint4,
    TensorProto.INT2: ml_dtypes.int2,
    TensorProto.UINT2: ml_dtypes.uint2,
}


@pytest.fixture
def cases(crumb_bin, tmp_path):
    return cases_of(crumb_bin, tmp_path)


def extremes(dtype, other=False):
    info = np.iinfo(dtype)
    values = [info.min, info.max, 0, 1, 2, 3, 7, info.max // 2, info.max // 2 + 1, info.max - 1]
    if info.min < 0:
        values += [-1, -2, -3, -7, info.min + 1]
    array = np.array(values, dtype)
    return array[array != 0] if other else array


def python_table(function, dtype):
    """function over all pairs of extreme numbers, in Python's integers, wrapped into the type."""
    a, b = extremes(dtype), extremes(dtype, other=True)
    bits = np.iinfo(dtype).bits
    table = [[function(int(x), int(y)) & ((1 << bits) - 1) for y in b] for x in a]
    unsigned = np.array(table, np.dtype(f"uint{bits}"))
    return a[:, None], b[None, :], unsigned.view(dtype)


def truncated(x, y):
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED, ids=lambda d: d.__name__)
def test_integers_wrap_and_order_as_their_type_does(cases, dtype):
    for op, function in {
        "Add": lambda x, y: x + y,
        "Sub": lambda x, y: x - y,
        "Mul": lambda x, y: x * y,
        "Div": truncated,
        "Mod": lambda x, y: x % y,
    }.items():
        a, b, expected = python_table(function, dtype)
        cases.add(op, 14, [a, b], [expected])
    a, b, expected = python_table(lambda x, y: x - truncated(x, y) * y, dtype)
    cases.add("Mod", 13, [a, b], [expected], fmod=1)
    for op, function in {
        "Equal": np.equal,
        "Less": np.less,
        "Greater": np.greater,
        "LessOrEqual": np.less_equal,
        "GreaterOrEqual": np.greater_equal,
    }.items():
        cases.add(op, 16, [a, b], [function(a, b)])
    cases.add("Min", 13, [a, b], [np.minimum(a, b)])
    cases.add("Max", 13, [a, b], [np.maximum(a, b)])
    low, high = np.array(3, dtype), np.array(np.iinfo(dtype).max // 2 + 1, dtype)
    cases.add("Clip", 13, [a, low, high], [np.minimum(np.maximum(a, low), high)])
    cases.add("Clip", 13, [a, None, low], [np.minimum(a, low)])
    cases.add("Clip", 13, [a, high, low], [np.full_like(a, 3)])
    cases.add("Sign", 13, [a], [np.sign(a)])
    cases.add("Abs", 13, [a], [np.abs(a)])
    for op, function in {"And": np.bitwise_and, "Or": np.bitwise_or, "Xor": np.bitwise_xor}.items():
        cases.add(f"Bitwise{op}", 18, [a, b], [function(a, b)])
    cases.add("BitwiseNot", 18, [a], [~a])
    flat = a.ravel()
    if dtype not in (np.int16, np.uint16):
        cases.add("ReduceMax", 20, [flat], [np.max(flat, keepdims=True)])
        cases.add("ReduceMin", 20, [flat], [np.min(flat, keepdims=True)])
    cases.add("ArgMax", 13, [flat], [np.array([np.argmax(flat)])])
    cases.add("ArgMin", 13, [flat], [np.array([np.argmin(flat)])])
    order = np.argsort(flat, kind="stable")
    cases.add("TopK", 11, [flat, np.array([4])], [flat[order][:4], order[:4]], largest=0)
    if np.iinfo(dtype).min == 0:
        bits = np.iinfo(dtype).bits
        by = np.array([0, 1, bits - 1, bits, bits + 3], dtype)
        for direction, function in (("LEFT", lambda x, s: x << s), ("RIGHT", lambda x, s: x >> s)):
            table = [[function(int(x), int(s)) & ((1 << bits) - 1) for s in by] for x in flat]
            cases.add("BitShift", 11, [a, by[None]], [np.array(table, dtype)], direction=direction)
    else:
        cases.add("Neg", 13, [a], [-a])
    cases.check()


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.__name__)
def test_floats_with_infinities_and_nan(cases, dtype):
    x = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1, -1, 2.5, -2.5, 3.5, 0.5, 1e-4], dtype)
    y = x[:, None]
    with np.errstate(all="ignore"):
        for op, function in {
            "Add": np.add,
            "Sub": np.subtract,
            "Mul": np.multiply,
            "Div": np.divide,
            "Min": np.minimum,
            "Max": np.maximum,
        }.items():
            cases.add(op, 14 if op in ("Add", "Sub", "Mul", "Div") else 13, [x, y], [function(x, y)])
        for op, function in {
            "Sqrt": np.sqrt,
            "Exp": np.exp,
            "Log": np.log,
            "Floor": np.floor,
            "Ceil": np.ceil,
            "Round": np.round,
            "Reciprocal": np.reciprocal,
            "Sign": np.sign,
            "Abs": np.abs,
            "Neg": np.negative,
            "Tanh": np.tanh,
            "Asinh": np.arcsinh,
            "Atanh": np.arctanh,
            "Acosh": np.arccosh,
            "Sin": np.sin,
            "Acos": np.arccos,
        }.items():
            cases.add(op, 22, [x], [function(x)])
        cases.add("Mod", 13, [x, y], [np.fmod(x, y)], fmod=1)
        cases.add("Clip", 13, [x, np.array(-1, dtype), np.array(2, dtype)], [np.clip(x, -1, 2).astype(dtype)])
        cases.add("Clip", 6, [x], [np.clip(x, -1, 2).astype(dtype)], min=-1.0, max=2.0)
        largest = np.array(np.finfo(np.float32).max).astype(dtype)
        cases.add("Clip", 6, [x], [np.minimum(np.maximum(x, dtype(-1)), largest)], min=-1.0)
        cases.add("Clip", 1, [x], [np.maximum(x, dtype(-1))], min=-1.0)
        cases.add("Clip", 11, [x, np.array(-1, dtype)], [np.maximum(x, dtype(-1))])
        cases.add("Less", 13, [x, y], [x < y])
        cases.add("Relu", 14, [x], [np.maximum(x, dtype(0))])
        cases.add("IsNaN", 20, [x], [np.isnan(x)])
        cases.add("IsInf", 20, [x], [np.isneginf(x)], detect_positive=0)
        cases.add("IsInf", 20, [x], [np.zeros_like(x, bool)], detect_positive=0, detect_negative=0)
        cases.add("Sum", 13, [x, y, x], [x + y + x])
        cases.add("Mean", 13, [x, y], [(x + y) / dtype(2)])
        cases.add("ArgMax", 13, [x], [np.array([0])])
    cases.check()


def test_power_takes_the_type_of_its_base(cases):
    x = np.array([1, 2, 3, -4], np.float32)
    n = np.array([3, 2, 0, 3])
    for base in (np.float32, np.float64, np.int32, np.int64):
        for exponent in (np.int8, np.int32, np.int64, np.float32, np.float64):
            cases.add("Pow", 15, [x.astype(base), n.astype(exponent)], [np.array([1, 4, 1, -64], base)])
    cases.add("Pow", 15, [np.array([9, 10], np.int32), np.array(0.5, np.float32)], [np.array([3, 3], np.int32)])
    cases.add("Pow", 15, [np.array([2, 1, -1], np.int32), np.array(-1, np.int32)], [np.array([0, 1, -1], np.int32)])
    cases.add("Pow", 15, [np.array([3], np.int64), np.array([39])], [np.array([3**39])])
    cases.add("Pow", 15, [np.array([1.5], np.float16), np.array([2], np.uint64)], [np.array([2.25], np.float16)])
    cases.check()


def test_broadcasting_before_operator_set_7(cases):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    b = np.array([1, 2, 3], np.float32)
    cases.add("Add", 6, [x, b], [x + b[:, None]], broadcast=1, axis=1)
    cases.add("Mul", 1, [x, np.array([5, 7], np.float32)], [x * np.array([5, 7])[:, None, None].astype(np.float32)],
              broadcast=1, axis=0)
    cases.add("Sub", 6, [x, x[0]], [x - x[0]], broadcast=1)
    cases.add("Div", 6, [x, np.float32(2)], [x / 2], broadcast=1, axis=2)
    cases.add("Pow", 1, [x, b], [x ** b[:, None]], broadcast=1, axis=-2)
    cases.add("Greater", 1, [x, b], [x > b[:, None]], broadcast=1, axis=1)
    flags = x > 11
    cases.add("And", 1, [flags, b > 1], [flags & (b > 1)[:, None]], broadcast=1, axis=1)
    cases.add("PRelu", 6, [-x, b], [-x * b[:, None]])
    cases.add("PRelu", 1, [-x, b[:1]], [-x])
    cases.check()


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def test_softmax_flattens_before_operator_set_13(cases):
    x = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)
    for opset in (1, 11):
        for axis in (0, 1, 2):
            flat = x.reshape(int(np.prod(x.shape[:axis])), -1)
            y = softmax(flat, 1)
            attributes = {} if axis == 1 else {"axis": axis}
            cases.add("Softmax", opset, [x], [y.reshape(x.shape)], **attributes)
            cases.add("LogSoftmax", opset, [x], [np.log(y).reshape(x.shape)], **attributes)
            hard = (np.arange(flat.shape[1]) == flat.argmax(1)[:, None]).astype(np.float32)
            cases.add("Hardmax", opset, [x], [hard.reshape(x.shape)], **attributes)
    cases.add("Softmax", 11, [x], [softmax(x, 2)], axis=-1)
    cases.add("Softmax", 13, [x], [softmax(x, 2)])
    cases.add("Softmax", 13, [np.float32(3)], [np.float32(1)])
    cases.add("Softmax", 13, [np.zeros((2, 0), np.float32)], [np.zeros((2, 0), np.float32)])
    cases.add("Hardmax", 13, [np.array([[1, 3, 3]], np.float32)], [np.array([[0, 1, 0]], np.float32)])
    cases.check()


def test_activations(cases):
    x = np.array([-50, -3, -1, -0.25, 0, 0.25, 1, 3, 20, 50], np.float32)
    wide = x.astype(np.float64)
    for op, attributes in {
        "Selu": {}, "Elu": {"alpha": 2.0}, "Celu": {"alpha": 2.0}, "LeakyRelu": {}, "HardSigmoid": {"alpha": 0.3},
        "HardSwish": {}, "Mish": {}, "Softplus": {}, "Softsign": {}, "ThresholdedRelu": {"alpha": 0.5},
        "Gelu": {"approximate": "tanh"}, "Sigmoid": {}, "Erf": {},
    }.items():  # fmt: skip
        assert cases.by_runtime(op, 21, [x], **attributes)
    cases.add("Softplus", 1, [wide], [np.logaddexp(wide, 0)])
    cases.add("Swish", 24, [x], [(wide / (1 + np.exp(-2.0 * wide))).astype(np.float32)], alpha=2.0)
    selu = np.float32(1.0507) * np.where(x > 0, x, np.float32(1.6732) * np.expm1(x))
    cases.add("Selu", 1, [x], [selu])
    for dtype in SIGNED + UNSIGNED[:1]:
        n = np.array([0, 1, 2, 5], dtype)
        cases.add("Shrink", 9, [n], [np.array([0, 0, 1, 4], dtype)], lambd=1.5, bias=1.0)
    ints = np.array([-3, 0, 4], np.int32)
    cases.add("PRelu", 16, [ints, np.array([2], np.int32)], [np.array([-6, 0, 4], np.int32)])
    large = np.array([2**63 + 1, 3], np.uint64)
    cases.add("PRelu", 16, [large, np.array([2], np.uint64)], [large])
    ones = np.ones_like(x, bool)
    cases.add("Dropout", 6, [x], [x, np.ones_like(x)], is_test=1)
    cases.add("Dropout", 7, [x], [x, np.ones_like(x)])
    cases.add("Dropout", 10, [x], [x, ones])
    cases.add("Dropout", 13, [x, np.float32(0.5)], [x, ones])
    cases.add("Dropout", 13, [x, np.float32(0), np.array(True)], [x, ones], seed=3)
    cases.check()


def test_cast_between_all_types(cases):
    numbers = np.array([0, 1, 2, 3, 1, 0])
    plain = [*SIGNED, *UNSIGNED, *FLOATS, np.bool_, ml_dtypes.bfloat16]
    every = [np.dtype(t) for t in [*plain, *SMALL.values(), *TINY.values()]]
    for source in every:
        for target in every:
            x = numbers.astype(np.float32).astype(source)
            via = x.astype(np.float32)
            if target.name == "int2" and source != target:
                via = np.where(via == 3, -1, via)
            expected = via.astype(bool) if target == np.bool_ else via.astype(target)
            to = helper.np_dtype_to_tensor_dtype(target)
            cases.add("Cast", 25, [x], [expected], to=to)
            cases.add("CastLike", 25, [x, np.zeros((), target)], [expected])
    cases.check()


def test_cast_rounds_wraps_and_saturates(cases):
    x = np.array([2**63, 2**64 - 1, 2**63 + 1025, 2**53 + 1, 5], np.uint64)
    for target in FLOATS:
        with np.errstate(over="ignore"):
            y = np.array([float(int(v)) for v in x]).astype(target)
        cases.add("Cast", 13, [x], [y], to=helper.np_dtype_to_tensor_dtype(y.dtype))
    for x, y in [
        (np.array([2.0**63, 1e19, 7.9]), np.array([2**63, 10**19, 7], np.uint64)),
        (np.array([200, -1, 300], np.int32), np.array([-56, -1, 44], np.int8)),
        (np.array([-1, 2**40 + 5]), np.array([2**32 - 1, 5], np.uint32)),
        (np.array([9, -9, 8, 23]), np.array([-7, 7, -8, 7]).astype(ml_dtypes.int4)),
        (np.array([-1.9, 1.9, -0.5]), np.array([-1, 1, 0], np.int32)),
        (np.array([300.7, -1.0], np.float32), np.array([44, 255], np.uint8)),
        (np.array([0.0, -0.0, np.nan, 0.1]), np.array([False, False, True, True])),
    ]:
        cases.add("Cast", 25, [x], [y], to=helper.np_dtype_to_tensor_dtype(y.dtype))
    # A double just above the middle of two halves: float would make it a tie.
    middle = 1 + 2.0**-11
    x = np.array([middle + 2.0**-40, middle, 1e-8, 7e4, -np.inf])
    with np.errstate(over="ignore"):
        cases.add("Cast", 13, [x], [x.astype(np.float16)], to=TensorProto.FLOAT16)
    cases.add("Cast", 1, [np.array([1.5, 2.5])], [np.array([1, 2], np.int16)], to="INT16")
    cases.add("Cast", 1, [np.array([1, 0], np.uint8)], [np.array([True, False])], to="BOOL")
    grid = np.concatenate([np.geomspace(1e-9, 1e6, 400), [np.inf, 0]])
    grid = np.concatenate([grid, -grid]).astype(np.float32)
    for to, dtype in SMALL.items():
        with np.errstate(all="ignore"):
            limits = ml_dtypes.finfo(dtype)
            clipped = np.clip(grid, np.float32(limits.min), np.float32(limits.max))
            cases.add("Cast", 25, [grid], [clipped.astype(dtype)], to=to)
            cases.add("Cast", 25, [grid], [grid.astype(dtype)], to=to, saturate=0)
    power = np.array([1, 1.1, 1.5, 3, 0.3], np.float32)
    e8m0 = ml_dtypes.float8_e8m0fnu
    for mode, expected in {"up": [1, 2, 2, 4, 0.5], "down": [1, 1, 1, 2, 0.25], "nearest": [1, 1, 2, 4, 0.25]}.items():
        cases.add("Cast", 25, [power], [np.array(expected, np.float32).astype(e8m0)], to=TensorProto.FLOAT8E8M0,
                  round_mode=mode)  # fmt: skip
    cases.check()


def test_bit_cast(cases):
    rng = np.random.default_rng(2)
    for source, target in [(np.float32, np.uint32), (np.uint64, np.float64), (np.float16, np.int16),
                           (np.uint16, ml_dtypes.bfloat16), (np.uint8, np.int8), (np.uint8, ml_dtypes.float8_e4m3fn),
                           (ml_dtypes.float8_e8m0fnu, np.uint8), (np.int64, np.uint64)]:  # fmt: skip
        x = rng.integers(0, 100, size=(3, 16), dtype=np.uint8).view(np.dtype(source))
        cases.add("BitCast", 26, [x], [x.view(target)], to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))
    cases.check()


def test_constants(cases):
    for dtype in [*SIGNED, *UNSIGNED, *FLOATS, np.bool_, *TINY.values(), *SMALL.values()]:
        value = numpy_helper.from_array(np.array([1]).astype(dtype))
        cases.add("ConstantOfShape", 25, [np.array([2, 3])], [np.ones((2, 3)).astype(dtype)], value=value)
    cases.add("ConstantOfShape", 9, [np.array([], np.int64)], [np.float32(0)])
    cases.add("ConstantOfShape", 9, [np.array([2, 0])], [np.zeros((2, 0), np.float32)])
    x = np.zeros((2, 3, 5), np.int8)
    cases.add("Shape", 1, [x], [np.array([2, 3, 5])])
    for start, end in [(-9, 9), (1, -1), (-2, 3), (2, 1)]:
        cases.add("Shape", 15, [x], [np.array([2, 3, 5][max(start, -3) : end], np.int64)], start=start, end=end)
    cases.add("Size", 13, [x], [np.array(30)])
    cases.add("Size", 13, [np.float32(1)], [np.array(1)])
    for dtype in (np.int16, np.int32, np.int64, np.float32, np.float64):
        for start, limit, delta in [(0, 5, 2), (5, 0, -2), (3, 3, 1), (5, 0, 1), (-4, 4, 3)]:
            scalars = [np.array(v, dtype) for v in (start, limit, delta)]
            cases.add("Range", 11, scalars, [np.arange(start, limit, delta, dtype)])
    cases.add("Range", 11, [np.array(v, np.float32) for v in (1, 2, 0.3)], [np.array([1, 1.3, 1.6, 1.9], np.float32)])
    wide = [np.array(v) for v in (-(2**63), 2**63 - 1, 2**62)]
    cases.add("Range", 11, wide, [np.array([-(2**63), -(2**62), 0, 2**62])])
    for k in (-9, -1, 0, 2, 9):
        eye = np.eye(3, 4, k, np.uint16)
        cases.add("EyeLike", 22, [np.zeros((3, 4), np.float32)], [eye], k=k, dtype=TensorProto.UINT16)
    cases.add("EyeLike", 9, [np.zeros((2, 2), np.float64)], [np.eye(2)])
    cases.check()


def test_random_numbers_have_type_and_shape(cases):
    x = np.ones((2, 3), np.float32)
    cases.add("Bernoulli", 22, [x], [np.ones((2, 3), np.int8)], dtype=TensorProto.INT8, seed=3.0)
    cases.add("Bernoulli", 15, [x * 0], [x * 0])
    cases.add("RandomUniform", 1, [], [np.full((2, 3), 4.0)], low=4.0, high=4.0, shape=[2, 3], dtype=TensorProto.DOUBLE)
    cases.add("RandomNormal", 1, [], [np.full(3, 2.5, np.float32)], mean=2.5, scale=0.0, shape=[3])
    half = np.full((2, 3), 2.5, np.float16)
    cases.add("RandomNormalLike", 1, [x], [half], mean=2.5, scale=0.0, dtype=TensorProto.FLOAT16)
    cases.add("RandomUniformLike", 1, [x], [np.full((2, 3), 1.0, np.float32)], low=1.0, high=1.0)
    draws = np.random.RandomState(7).uniform(size=(40, 50))
    kept = np.where(draws >= 0.25, np.float32(4 / 3), np.float32(0))
    many = np.ones((40, 50), np.float32)
    cases.add("Dropout", 13, [many, np.float32(0.25), np.array(True)], [kept, draws >= 0.25], seed=7)
    certain = np.array([[-1e9, 0, -1e9], [0, -1e9, -1e9]], np.float32)
    cases.add("Multinomial", 7, [certain], [np.array([[1] * 5, [0] * 5], np.int32)], sample_size=5, seed=1.0)
    cases.add("Multinomial", 7, [certain], [np.array([[1], [0]])], dtype=TensorProto.INT64)
    cases.check()


def test_random_numbers_follow_their_distribution(cases):
    """Means over many draws, by reductions in the same graph."""
    size = 40000

    def average(name, node, expected, tolerance):
        nodes = [
            node,
            helper.make_node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("ReduceMean", ["f"], ["m"], keepdims=0),
            helper.make_node("Sub", ["m", "expected"], ["d"]),
            helper.make_node("Abs", ["d"], ["a"]),
            helper.make_node("Less", ["a", "tolerance"], ["y0"]),
        ]
        constants = {"p": np.full(size, 0.3, np.float32), "logits": np.log(np.array([[0.2, 0.8]], np.float32)),
                     "expected": np.float32(expected), "tolerance": np.float32(tolerance)}  # fmt: skip
        graph = helper.make_graph(
            nodes, "g", [], [helper.make_tensor_value_info("y0", TensorProto.BOOL, [])],
            [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        cases.add("Identity", 17, [np.array(True)], [np.array(True)])
        folder, _ = cases.folders[-1]
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        (folder / "test_data_set_0" / "input_0.pb").unlink()
        cases.folders[-1] = (folder, name)

    average("uniform", helper.make_node("RandomUniform", [], ["r"], shape=[size], low=2.0, high=6.0, seed=1.0), 4, 0.05)
    average("normal", helper.make_node("RandomNormal", [], ["r"], shape=[size], mean=1.0, scale=2.0), 1, 0.1)
    average("bernoulli", helper.make_node("Bernoulli", ["p"], ["r"]), 0.3, 0.02)
    average("multinomial", helper.make_node("Multinomial", ["logits"], ["r"], sample_size=size), 0.8, 0.02)
    cases.check()


def test_matrix_products(cases):
    rng = np.random.default_rng(3)
    for dtype in [*FLOATS, np.int32, np.int64, np.uint32, np.uint64]:
        def draw(*shape):
            return rng.integers(0, 9, size=shape).astype(dtype)

        for a, b in [((3,), (3,)), ((2, 3), (3,)), ((3,), (4, 3, 2)), ((5, 1, 2, 3), (4, 3, 2)), ((0, 3), (3, 2)),
                     ((2, 0), (0, 3))]:  # fmt: skip
            x, y = draw(*a), draw(*b)
            cases.add("MatMul", 13, [x, y], [np.matmul(x, y)])
        a, b = draw(3, 2), draw(4, 3)
        for c in (draw(2, 4), draw(4), draw(2, 1), draw(1, 4), draw(), None):
            expected = (2 * a.T @ b.T + (0 if c is None else 3 * c)).astype(dtype)
            cases.add("Gemm", 13, [a, b, c], [expected], transA=1, transB=1, alpha=2.0, beta=3.0)
        cases.add("Gemm", 11, [a.T, b.T], [a.T @ b.T])
        cases.add("CumSum", 14, [a, np.array(-2)], [np.cumsum(a, 0).astype(dtype)])
        if dtype in (np.float32, np.int32, np.uint64):
            x, y = draw(2, 3, 4), draw(4, 5)
            cases.add("Einsum", 12, [x, y], [x @ y], equation="...ij, jk -> ...ik")
            cases.add("Einsum", 12, [x, y], [x @ y], equation="abi,ic")
            cases.add("Einsum", 12, [draw(0, 3)], [np.array(0, dtype)], equation="ij->")
    big = np.array([[2**63 + 5]], np.uint64)
    cases.add("MatMul", 13, [big, np.array([[3]], np.uint64)], [np.array([[2**63 + 15]], np.uint64)])
    c = rng.normal(size=4).astype(np.float32)
    a, b = rng.normal(size=(2, 3)).astype(np.float32), rng.normal(size=(3, 4)).astype(np.float32)
    cases.add("Gemm", 6, [a, b, c], [a @ b + c], broadcast=1)
    cases.add("Det", 22, [np.zeros((2, 0, 3, 3), np.float32)], [np.zeros((2, 0), np.float32)])
    cases.add("Det", 11, [np.array([[1, 2], [3, 4]], np.float64)], [np.array(-2.0)])
    x = rng.integers(1, 4, size=(2, 3, 4)).astype(np.int32)
    for reverse in (0, 1):
        turned = x[:, ::-1] if reverse else x
        product = np.cumprod(turned, 1)
        shifted = np.concatenate([np.ones_like(x[:, :1]), product[:, :-1]], 1)
        for exclusive, y in ((0, product), (1, shifted)):
            y = (y[:, ::-1] if reverse else y).astype(np.int32)
            cases.add("CumProd", 26, [x, np.array(1)], [y], reverse=reverse, exclusive=exclusive)
    cases.add("CumSum", 11, [np.zeros((2, 0)), np.array(1, np.int32)], [np.zeros((2, 0))], exclusive=1)
    for k in (-(2**62), -1, 1, 2**62):
        for upper, function in ((0, np.tril), (1, np.triu)):
            cases.add("Trilu", 14, [x, np.array(k)], [function(x, max(min(k, 9), -9))], upper=upper)
    cases.check()


REDUCTIONS = {
    "Sum": np.sum,
    "Prod": np.prod,
    "Mean": np.mean,
    "L1": lambda x, **k: np.sum(np.abs(x), **k),
    "L2": lambda x, **k: np.sqrt(np.sum(np.square(x), **k)),
    "SumSquare": lambda x, **k: np.sum(np.square(x), **k),
    "LogSum": lambda x, **k: np.log(np.sum(x, **k)),
    "LogSumExp": lambda x, **k: np.log(np.sum(np.exp(x), **k)),
    "Max": np.max,
    "Min": np.min,
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(cases, name):
    function, op = REDUCTIONS[name], f"Reduce{name}"
    attribute_until = 11 if name == "Sum" else 13
    x = np.random.default_rng(4).uniform(0.5, 3, size=(2, 3, 4))
    for dtype in [np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64]:
        y = x.astype(dtype) if dtype in FLOATS else np.ceil(x / (1.5 if name == "Prod" else 0.3)).astype(dtype)
        wide = y.astype(np.float64)
        for axes in ([1], [-1, 0], None):
            over = None if axes is None else tuple(axes)
            for keep in (0, 1):
                expected = function(wide, axis=over, keepdims=bool(keep)).astype(dtype)
                old = {} if axes is None else {"axes": axes}
                cases.add(op, attribute_until, [y], [expected], keepdims=keep, **old)
                new = [y] if axes is None else [y, np.array(axes)]
                cases.add(op, 18, new, [expected], keepdims=keep)
        alone = function(wide, axis=()).astype(dtype)
        cases.add(op, 18, [y, np.array([], np.int64)], [alone], noop_with_empty_axes=1)
        cases.add(op, 18, [y], [alone], noop_with_empty_axes=1)
        cases.add(op, 18, [y, np.array([], np.int64)], [function(wide, keepdims=True).astype(dtype)])
        cases.add(op, 18, [y[0, 0, 0]], [alone[0, 0, 0]])
    empty = np.zeros((2, 0, 4), np.float32)
    neutral = {"Max": -np.inf, "Min": np.inf, "Prod": 1, "Mean": np.nan, "LogSum": -np.inf, "LogSumExp": -np.inf}
    cases.add(op, 18, [empty, np.array([1])], [np.full((2, 1, 4), neutral.get(name, 0), np.float32)])
    cases.add(op, 18, [empty, np.array([0])], [np.zeros((1, 0, 4), np.float32)])
    if name in ("Max", "Min"):
        for dtype in (np.int8, np.uint8, np.int64, np.uint64):
            edge = np.iinfo(dtype).min if name == "Max" else np.iinfo(dtype).max
            cases.add(op, 18, [np.zeros((0, 2), dtype), np.array([0])], [np.full((1, 2), edge, dtype)])
        flags = np.array([[True, False], [False, False]])
        cases.add(op, 20, [flags, np.array([1])], [function(flags, axis=1, keepdims=True)])
        cases.add(op, 20, [np.zeros((0,), bool)], [np.array([name == "Min"])])
        bad = np.array([1, np.nan, 2], np.float32)
        cases.add(op, 13, [bad], [np.array([np.nan], np.float32)])
    cases.check()


def test_arg_max_and_top_k(cases):
    x = np.array([[3, 7, 7, 1], [5, 5, 5, 5]], np.float32)
    for opset in (1, 11, 13):
        cases.add("ArgMax", opset, [x], [np.array([[1], [0]])], axis=1)
        cases.add("ArgMin", opset, [x], [np.array([3, 0])], axis=-1 if opset > 1 else 1, keepdims=0)
    cases.add("ArgMax", 13, [x], [np.array([2, 3])], axis=1, keepdims=0, select_last_index=1)
    cases.add("TopK", 1, [x], [np.array([[7, 7], [5, 5]], np.float32), np.array([[1, 2], [0, 1]])], k=2)
    cases.add("TopK", 10, [x, np.array([3])],
              [np.array([[7, 7, 3], [5, 5, 5]], np.float32), np.array([[1, 2, 0], [0, 1, 2]])])  # fmt: skip
    cases.add("TopK", 11, [x, np.array([1])], [x.min(0, keepdims=True), x.argmin(0)[None]], axis=0, largest=0)
    cases.add("TopK", 11, [x, np.array([0])], [np.zeros((2, 0), np.float32), np.zeros((2, 0), np.int64)])
    many = np.random.default_rng(5).integers(0, 5, size=(3, 1000)).astype(np.int16)
    order = np.argsort(-many.astype(int), axis=1, kind="stable")[:, :40]
    cases.add("TopK", 11, [many, np.array([40])], [np.take_along_axis(many, order, 1), order])
    cases.check()


def test_what_cannot_be_is_refused(cases):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    bad = [
        ("TopK", 11, [x, np.array([4])], [x, x.astype(np.int64)], {}),
        ("ReduceSum", 13, [x, np.array([2])], [x], {}),
        ("ReduceSum", 13, [x, np.array([1, -1])], [x], {}),
        ("Div", 14, [np.array([1, 2]), np.array([1, 0])], [np.array([1, 0])], {}),
        ("Mod", 13, [np.array([1], np.uint64), np.array([0], np.uint64)], [np.array([0], np.uint64)], {}),
        ("Gemm", 13, [x, x], [x], {}),
        ("ConstantOfShape", 9, [np.array([-1])], [np.zeros(1, np.float32)], {}),
        ("ConstantOfShape", 9, [np.array([2**62, 2**62])], [np.zeros(1, np.float32)], {}),
        ("Range", 11, [np.array(0), np.array(3), np.array(0)], [np.zeros(1, np.int64)], {}),
        ("Range", 11, [np.array(v, np.float32) for v in (0, np.nan, 1)], [np.zeros(1, np.float32)], {}),
        ("Range", 11, [np.array(v) for v in (-(2**63), 2**63 - 1, 1)], [np.zeros(1, np.int64)], {}),
        ("CumSum", 14, [x, np.array(2)], [x], {}),
        ("Trilu", 14, [x[0]], [x[0]], {}),
        ("Softmax", 13, [x], [x], {"axis": 2}),
    ]
    for op, opset, inputs, outputs, attributes in bad:
        cases.add(op, opset, inputs, outputs, **attributes)
    for (op, *_), line in zip(bad, cases.run()):
        verdict, _, why = line.split("\t")
        assert verdict in ("failed", "refused"), line
        assert op in why or "shape" in why, line
        assert "differ" not in why and "expected float" not in why.split("found")[0][:15], line

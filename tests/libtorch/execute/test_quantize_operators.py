"""The standard's quantized operators beyond the conformance suite: oracles are ONNX's reference evaluator, onnxruntime
and exact integer arithmetic in NumPy."""

import itertools

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

INTEGERS = {
    "uint8": (TensorProto.UINT8, 0, 255),
    "int8": (TensorProto.INT8, -128, 127),
    "uint16": (TensorProto.UINT16, 0, 65535),
    "int16": (TensorProto.INT16, -32768, 32767),
    "uint4": (TensorProto.UINT4, 0, 15),
    "int4": (TensorProto.INT4, -8, 7),
    "uint2": (TensorProto.UINT2, 0, 3),
    "int2": (TensorProto.INT2, -2, 1),
}
SMALL_FLOATS = ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT4E2M1"]


def dtype_of(kind):
    return helper.tensor_dtype_to_np_dtype(kind)


def write(folder, node, inputs, outputs, opset=25):
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    for kind, arrays in (("input", inputs), ("output", outputs)):
        present = [array for array in arrays if array is not None]
        for i, array in enumerate(present):
            proto = numpy_helper.from_array(np.asarray(array))
            (data / f"{kind}_{i}.pb").write_bytes(proto.SerializeToString())
    (folder / "model.onnx").write_bytes(model_of(node, inputs, outputs, opset).SerializeToString())
    return folder


def model_of(node, inputs, outputs, opset=25):
    def info(names, arrays):
        pairs = zip([name for name in names if name], [array for array in arrays if array is not None])
        kinds = [(name, helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype)) for name, array in pairs]
        return [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds]

    graph = helper.make_graph([node], "case", info(node.input, inputs), info(node.output, outputs))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=13 if opset > 24 else 10)


def numbers(rng, shape):
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-2, 9, shape)
    ties = rng.integers(-300, 300, shape) / 2
    return np.where(rng.random(shape) < 0.4, ties, x).astype(np.float32)


def beside(array, shape, axis, block):
    """A scale or zero point in x's shape."""
    array = np.asarray(array)
    if array.ndim == 0:
        return np.broadcast_to(array, shape)
    if block:
        return np.take(np.repeat(array, block, axis), range(shape[axis]), axis)
    return array.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])


def granularities(rng, shape):
    """(scale shape, axis, block size) for each granularity that fits."""
    yield (), 1, 0
    for axis in range(-len(shape), len(shape)):
        yield (shape[axis],), axis, 0
        for block in (1, 2, 3):
            sizes = list(shape)
            sizes[axis] = -(-shape[axis] // block)
            yield tuple(sizes), axis, block


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("precision", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_quantize_to_integers(kind, precision, tmp_path, assert_cases_pass):
    """The quotient in the scale's type, rounded half to even, then the zero point, then saturation."""
    rng = np.random.default_rng(1)
    number, low, high = INTEGERS[kind]
    folders = []
    for shape in [(5,), (4, 6), (2, 3, 5)]:
        for scale_shape, axis, block in granularities(rng, shape):
            x = numbers(rng, shape).astype(precision)
            scale = rng.choice([1.0, 0.5, 0.1, 2.0], scale_shape).astype(precision)
            zero = rng.integers(low, high + 1, scale_shape) if rng.random() < 0.7 else None
            with np.errstate(all="ignore"):
                quotient = (x / beside(scale, shape, axis, block)).astype(precision).astype(np.float64)
            shift = 0 if zero is None else beside(zero, shape, axis, block).astype(np.float64)
            expected = np.clip(np.rint(quotient) + shift, low, high).astype(dtype_of(number))
            attributes = {"axis": axis, "block_size": block}
            names = ["x", "scale"]
            if zero is None:
                attributes["output_dtype"] = number
            else:
                names.append("zero")
                zero = np.asarray(zero).astype(dtype_of(number))
            node = helper.make_node("QuantizeLinear", names, ["y"], **attributes)
            folders.append(write(tmp_path / str(len(folders)), node, [x, scale, zero], [expected]))
    assert_cases_pass(folders)


@pytest.mark.parametrize("kind", [*INTEGERS, "int32"])
def test_dequantize_integers(kind, tmp_path, assert_cases_pass):
    rng = np.random.default_rng(2)
    number, low, high = INTEGERS.get(kind, (TensorProto.INT32, -(2**20), 2**20))
    folders = []
    for precision in (np.float32, np.float16, ml_dtypes.bfloat16):
        for scale_shape, axis, block in granularities(rng, (4, 6)):
            x = rng.integers(low, high + 1, (4, 6))
            scale = (rng.random(scale_shape) * 0.1).astype(precision)
            zero = rng.integers(low, high + 1, scale_shape) if kind != "int32" and rng.random() < 0.7 else None
            shift = 0 if zero is None else beside(zero, x.shape, axis, block)
            difference = (x - shift).astype(np.float32)
            with np.errstate(all="ignore"):
                expected = (difference * beside(scale, x.shape, axis, block).astype(np.float32)).astype(precision)
            names = ["x", "scale"] + (["zero"] if zero is not None else [])
            node = helper.make_node("DequantizeLinear", names, ["y"], axis=axis, block_size=block)
            zero = None if zero is None else np.asarray(zero).astype(dtype_of(number))
            inputs = [x.astype(dtype_of(number)), scale, zero]
            folders.append(write(tmp_path / str(len(folders)), node, inputs, [expected]))
    assert_cases_pass(folders, "--exact")


@pytest.mark.parametrize("name", SMALL_FLOATS)
@pytest.mark.parametrize("saturate", [0, 1])
def test_small_floats_there_and_back(name, saturate, tmp_path, assert_cases_pass):
    rng = np.random.default_rng(3)
    kind = getattr(TensorProto, name)
    folders = []
    for precision, block in itertools.product((np.float32, np.float16), (0, 2)):
        x = numbers(rng, (4, 6)).astype(precision)
        scale = rng.choice([1.0, 0.25, 3.0], (2, 6) if block else (6,)).astype(precision)
        axis = 0 if block else 1
        node = helper.make_node(
            "QuantizeLinear", ["x", "scale"], ["y"], axis=axis, block_size=block, output_dtype=kind, saturate=saturate
        )
        (y,) = ReferenceEvaluator(model_of(node, [x, scale], [x])).run(None, {"x": x, "scale": scale})
        folders.append(write(tmp_path / str(len(folders)), node, [x, scale], [y]))
        back = helper.make_node("DequantizeLinear", ["x", "scale"], ["y"], axis=axis, block_size=block)
        (z,) = ReferenceEvaluator(model_of(back, [y, scale], [x])).run(None, {"x": y, "scale": scale})
        folders.append(write(tmp_path / str(len(folders)), back, [y, scale], [z]))
    assert_cases_pass(folders)


def test_old_versions_and_scalars(tmp_path, assert_cases_pass):
    """Operator set 10 knows one scale for all; scales of one element are scalars in whatever shape they come."""
    x = np.array([[0.5, 1.5, -0.5, 300.0, -300.0, np.inf, -np.inf]], np.float32)
    folders = []
    for opset in (10, 13, 19, 21, 23, 25):
        for shape in ((), (1,)):
            scale, zero = np.full(shape, 1.0, np.float32), np.full(shape, 3, np.int8)
            y = np.array([[3, 5, 3, 127, -128, 127, -128]], np.int8)
            node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
            folders.append(write(tmp_path / f"q{opset}{len(shape)}", node, [x, scale, zero], [y], opset))
            node = helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"])
            back = (y.astype(np.float32) - 3) * 1
            folders.append(write(tmp_path / f"d{opset}{len(shape)}", node, [y, scale, zero], [back], opset))
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"])
    scale = np.array(2, np.float32)
    integers = np.array([3, 5, -1, 700], np.int32)
    folders.append(write(tmp_path / "int32", node, [integers, scale], [np.array([2, 2, 0, 255], np.uint8)], 10))
    empty = np.zeros((0, 3), np.float32)
    folders.append(write(tmp_path / "empty", node, [empty, scale], [empty.astype(np.uint8)], 13))
    scalar = np.array(2.5, np.float32)
    one = np.array(1, np.float32)
    folders.append(write(tmp_path / "rank0", node, [scalar, one], [np.array(2, np.uint8)], 13))
    assert_cases_pass(folders)


def test_dynamic_quantization(tmp_path, assert_cases_pass):
    rng = np.random.default_rng(4)
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])
    folders = []
    arrays = [rng.standard_normal((3, 4)), rng.random(7) + 1, -rng.random((2, 2, 2)), np.zeros(3), np.array(2.0)]
    for number, x in enumerate(arrays):
        x = x.astype(np.float32)
        outputs = ReferenceEvaluator(model_of(node, [x], [x.astype(np.uint8), x, x.astype(np.uint8)], 21)).run(
            None, {"x": x}
        )
        folders.append(write(tmp_path / str(number), node, [x], outputs, 21))
    assert_cases_pass(folders, "--exact")


def codes(rng, dtype, shape):
    bounds = np.iinfo(dtype)
    return rng.integers(bounds.min, bounds.max + 1, shape).astype(dtype)


def weights(rng, dtype, shape):
    """Of whose products with uint8 onnxruntime computes every sum rightly.

    Without VNNI it adds pairs of uint8 * int8 in 16 bits that saturate: int8 weights get seven bits.
    """
    return rng.integers(-64, 65, shape).astype(dtype) if dtype == "int8" else codes(rng, dtype, shape)


@pytest.mark.parametrize(("left", "right"), itertools.product(("uint8", "int8"), repeat=2))
def test_integer_products_are_exact(left, right, tmp_path, assert_cases_pass):
    rng = np.random.default_rng(5)
    node = helper.make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"])
    folders = []
    shapes = [((3, 4), (4, 5)), ((3, 3000), (3000, 2)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 1)), ((0, 4), (4, 2))]
    for (a_shape, b_shape), per_row in itertools.product(shapes, (False, True)):
        a, b = codes(rng, left, a_shape), codes(rng, right, b_shape)
        if a_shape == (3, 3000):  # the largest sums
            a[:], b[:] = np.iinfo(left).max, np.iinfo(right).max
        rows, columns = a_shape[-2], b_shape[-1]
        az = codes(rng, left, (rows,) if per_row and len(a_shape) == 2 else ())
        bz = codes(rng, right, (columns,) if per_row and len(b_shape) == 2 else ())
        wide = a.astype(np.int64) - (az.astype(np.int64)[:, None] if az.ndim else az.astype(np.int64))
        y = (wide @ (b.astype(np.int64) - bz.astype(np.int64))).astype(np.int32)
        folders.append(write(tmp_path / str(len(folders)), node, [a, b, az, bz], [y], 10))
    vector = helper.make_node("MatMulInteger", ["a", "b"], ["y"])
    a, b = codes(rng, left, (6,)), codes(rng, right, (6, 2))
    y = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
    folders.append(write(tmp_path / "vector", vector, [a, b], [y], 10))
    assert_cases_pass(folders)


@pytest.mark.parametrize(("left", "right"), itertools.product(("uint8", "int8"), repeat=2))
def test_integer_convolutions_are_exact(left, right, tmp_path, assert_cases_pass):
    """ConvInteger and QLinearConv of all codes, whose sums NumPy makes in 64 bits."""
    rng = np.random.default_rng(8)
    folders = []
    for number in range(16):
        kernel = rng.integers(1, 4, 2).tolist()
        x, w = codes(rng, left, (2, 40, 7, 6)), codes(rng, right, (6, 40, *kernel))
        if number % 4 == 0:  # the largest sums
            x[:], w[:] = np.iinfo(left).max, np.iinfo(right).min
        xz, wz = codes(rng, left, ()), codes(rng, right, (6,) if number % 2 else ())
        windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64) - int(xz), kernel, (2, 3))
        centred = w.astype(np.int64) - wz.astype(np.int64).reshape(-1, 1, 1, 1)
        sums = np.einsum("nchwij,ocij->nohw", windows, centred)
        node = helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"])
        folders.append(write(tmp_path / f"integer{number}", node, [x, w, xz, wz], [sums.astype(np.int32)], 10))
        # The factor is a power of two, so that no rounding but the last one is seen.
        bias, yz, factor = rng.integers(-1000, 1000, 6).astype(np.int32), codes(rng, left, ()), 2.0**-14
        bounds = np.iinfo(left)
        y = np.clip(np.rint((sums + bias.reshape(-1, 1, 1)) * factor) + int(yz), bounds.min, bounds.max)
        scales = [np.float32(scale) for scale in (2.0**-6, 2.0**-8, 1.0)]
        inputs = [x, scales[0], xz, w, np.full(wz.shape, scales[1]), wz, scales[2], yz, bias]
        names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
        node = helper.make_node("QLinearConv", names, ["y"])
        folders.append(write(tmp_path / f"linear{number}", node, inputs, [y.astype(left)], 10))
    assert_cases_pass(folders, "--exact")


def run_onnxruntime(model, inputs):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: np.asarray(array) for i, array in zip(session.get_inputs(), inputs)})


@pytest.mark.parametrize("operator", ["ConvInteger", "QLinearConv"])
def test_integer_convolutions_against_onnxruntime(operator, tmp_path, assert_cases_pass):
    rng = np.random.default_rng(6)
    folders = []
    for number in range(24):
        group = int(rng.choice([1, 2]))
        kernel, stride = rng.integers(1, 4, 2).tolist(), rng.integers(1, 3, 2).tolist()
        attributes = {"kernel_shape": kernel, "strides": stride, "dilations": rng.integers(1, 3, 2).tolist()}
        if number % 3 == 0:
            attributes |= {"auto_pad": "SAME_UPPER", "dilations": [1, 1]}
        else:
            attributes["pads"] = rng.integers(0, 3, 4).tolist()
        x = codes(rng, "uint8", (2, 4, *rng.integers(6, 10, 2)))
        w = weights(rng, "int8" if operator == "QLinearConv" else "uint8", (6, 4 // group, *kernel))
        xz = codes(rng, "uint8", ())
        if operator == "ConvInteger":
            inputs, names = [x, w, xz, codes(rng, "uint8", ())], ["x", "w", "xz", "wz"]
            sample = x.astype(np.int32)
        else:
            each = (6,) if number % 2 else ()
            scales = [np.float32(0.02), (rng.random(each) * 0.01 + 0.01).astype(np.float32), np.float32(0.7)]
            wz = np.zeros(each, np.int8)
            yz = codes(rng, "uint8", ())
            inputs = [x, scales[0], xz, w, scales[1], wz, scales[2], yz]
            names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
            if number % 4 < 2:
                inputs.append(rng.integers(-1000, 1000, 6).astype(np.int32))
                names.append("b")
            sample = x
        node = helper.make_node(operator, names, ["y"], group=group, **attributes)
        (y,) = run_onnxruntime(model_of(node, inputs, [sample], 10), inputs)
        folders.append(write(tmp_path / str(number), node, inputs, [y], 10))
    assert_cases_pass(folders)


def test_quantized_matrix_products_against_onnxruntime(tmp_path, assert_cases_pass):
    rng = np.random.default_rng(7)
    names = ["a", "as", "az", "b", "bs", "bz", "ys", "yz"]
    node = helper.make_node("QLinearMatMul", names, ["y"])
    folders = []
    for number in range(16):
        a = codes(rng, "uint8", (2, 5, 7) if number % 2 else (5, 7))
        b = weights(rng, "int8" if number % 4 < 2 else "uint8", (7, 3))
        each = (3,) if number % 3 == 0 else ()
        scale = (rng.random(each) * 0.01 + 0.01).astype(np.float32)
        zero = codes(rng, b.dtype, each)
        inputs = [a, np.float32(0.03), codes(rng, "uint8", ()), b, scale, zero]
        inputs += [np.float32(0.4), codes(rng, "uint8", ())]
        (y,) = run_onnxruntime(model_of(node, inputs, [a], 10), inputs)
        folders.append(write(tmp_path / str(number), node, inputs, [y], 10))
    assert_cases_pass(folders)


@pytest.mark.parametrize(
    ("inputs", "attributes", "opset", "why"),
    [
        ([np.ones((2, 3), np.float32), np.ones(4, np.float32)], {}, 13, "expected 3 numbers"),
        ([np.ones((2, 3), np.float32), np.ones(3, np.float32)], {}, 10, "expected one number"),
        ([np.ones((2, 3), np.float32), np.ones((2, 2), np.float32)], {"block_size": 4}, 21, "each block of 4"),
        ([np.ones((2, 3), np.float32), np.ones((2, 2), np.float32)], {"axis": 5, "block_size": 2}, 21, "axis 5"),
    ],
)
def test_granularities_that_do_not_fit(inputs, attributes, opset, why, tmp_path, onnx_cases):
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], **attributes)
    folder = write(tmp_path / "case", node, inputs, [inputs[0].astype(np.uint8)], opset)
    (verdict,) = onnx_cases([folder]).values()
    assert verdict.state == "failed" and why in verdict.why, verdict


def test_two_wishes_for_the_type_must_agree(tmp_path, onnx_cases):
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], output_dtype=onnx.TensorProto.INT8)
    x = np.ones(2, np.float32)
    folder = write(tmp_path / "case", node, [x, x[0], np.array(0, np.uint8)], [x.astype(np.uint8)], 21)
    (verdict,) = onnx_cases([folder]).values()
    assert verdict.state == "failed" and "output_dtype is int8" in verdict.why, verdict

"""Networks between QONNX and QCDQ, and QCDQ of other producers: onnxruntime's quantizer, hand-written files."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qcdq_models import QONNX, Case, Net, counts, expected, formats, integers, quantizers, run

NETWORKS = ["TFC_1W1A", "TFC_1W2A", "TFC_2W2A", "espcn_nn_resize_quant", "espcn_subpixel_quant"]


def sample(path, networks):
    if "espcn" in path.name:  # an image: of noise, each step of a quantizer is many behind the next ones
        return numpy_helper.to_array(onnx.load_tensor(networks / "espcn_input_0.pb"))
    value = onnx.load(path).graph.input[0]
    shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
    return np.random.default_rng(42).random(shape).astype(np.float32)


@pytest.mark.parametrize("options", [(), ("--weights-as-float",), ("--opset=21", "--native")])
@pytest.mark.parametrize("name", NETWORKS)
def test_onnxruntime_computes_what_crumb_does(convert, check_agree, crumb, engine, networks, tmp_path, name, options):
    source = networks / f"{name}.onnx"
    there, back = tmp_path / "there.onnx", tmp_path / "back.onnx"
    convert("to", source, there, "--bind", *options)
    convert("from", there, back)
    x = sample(source, networks)
    np.save(tmp_path / "x.npy", x)

    def by_crumb(path):
        crumb("run", path, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
        return np.load(tmp_path / "y.npy")

    want = by_crumb(source)
    assert np.array_equal(by_crumb(there), want)
    assert np.array_equal(by_crumb(back), want)
    (found,) = run(there, x).values()
    check_agree(source, x, found, want)


def test_counts(convert, networks, tmp_path):
    there = tmp_path / "there.onnx"
    ops = {}
    for name in ("TFC_1W2A", "TFC_2W2A"):
        convert("to", networks / f"{name}.onnx", there)
        found = counts(there)
        ops[name] = [found.get(op, 0) for op in ("QuantizeLinear", "Clip", "DequantizeLinear")]
        convert("to", networks / f"{name}.onnx", there, "--weights-as-float")
        found = counts(there)
        ops[name] += [found.get(op, 0) for op in ("QuantizeLinear", "Clip", "DequantizeLinear")]
    # qonnx leaves the four BipolarQuant of TFC_1W2A as they are: 4 of each. Without floats a weight has no Quantize.
    assert ops["TFC_1W2A"] == [4, 8, 8, 8, 8, 8]
    assert ops["TFC_2W2A"] == [4, 8, 8, 8, 8, 8]


def weights_and_activations(path):
    """Of each quantizer in the file's order: what it is, its parameters, and the integers of constants."""
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.util.cleanup import cleanup_model

    found = []
    model = cleanup_model(ModelWrapper(str(path)))
    for node in model.graph.node:
        if node.op_type not in ("Quant", "BipolarQuant"):
            continue
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        data, scale = (model.get_initializer(node.input[i]) for i in (0, 1))
        if node.op_type == "BipolarQuant":
            found.append(("BipolarQuant", float(scale.squeeze()), None if data is None else (data >= 0).tobytes()))
            continue
        zeropt, bits = (model.get_initializer(node.input[i]) for i in (2, 3))
        numbers = float(bits), attributes["signed"], attributes["narrow"]
        codes = None
        if data is not None:
            codes = integers(data, scale, zeropt, *numbers, attributes["rounding_mode"].decode()).tobytes()
        found.append(("Quant", scale.squeeze().tolist(), zeropt.squeeze().tolist(), numbers, codes))
    return found


@pytest.mark.parametrize("name", NETWORKS)
def test_back_and_forth_keeps_every_quantizer(convert, networks, tmp_path, name):
    convert("read", networks / f"{name}.onnx", tmp_path / "first.onnx", "--bind")
    convert("to", tmp_path / "first.onnx", tmp_path / "there.onnx")
    convert("from", tmp_path / "there.onnx", tmp_path / "back.onnx")
    first = weights_and_activations(tmp_path / "first.onnx")
    assert first and sorted(map(str, first)) == sorted(map(str, weights_and_activations(tmp_path / "back.onnx")))


@pytest.mark.parametrize("name", ["TFC_2W2A", "espcn_nn_resize_quant"])
def test_qonnx_reads_weights_as_floats_with_their_widths(convert, networks, tmp_path, name):
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.transformation.qcdq_to_qonnx import QCDQToQuant

    convert("read", networks / f"{name}.onnx", tmp_path / "first.onnx", "--bind")
    convert("to", tmp_path / "first.onnx", tmp_path / "there.onnx", "--weights-as-float")
    model = ModelWrapper(str(tmp_path / "there.onnx")).transform(QCDQToQuant())
    assert not model.get_nodes_by_op_type("DequantizeLinear")
    model.save(str(tmp_path / "theirs.onnx"))

    def widths(path):
        found = [(q.bits, q.signed, q.narrow) for q in quantizers(path).values()]
        return sorted(found)

    assert widths(tmp_path / "theirs.onnx") == widths(tmp_path / "first.onnx")


def model_of(nodes, constants, outputs, shape=(2, 3), opset=13, kinds=None, extra=()):
    x = helper.make_tensor_value_info("x", (kinds or {}).get("x", TensorProto.FLOAT), list(shape))
    outs = [helper.make_tensor_value_info(n, (kinds or {}).get(n, TensorProto.FLOAT), None) for n in outputs]
    for out in outs:
        out.type.tensor_type.shape.CopyFrom(x.type.tensor_type.shape)
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "net", [x], outs, [*tensors, *extra])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def qcdq(bounds, kind=np.int8, zero=0):
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="first"),
        helper.make_node("Clip", ["q", "lo", "hi"], ["c"], name="second"),
        helper.make_node("DequantizeLinear", ["c", "s", "z"], ["y"], name="third"),
    ]
    constants = {"s": np.float32(0.5), "z": kind(zero), "lo": kind(bounds[0]), "hi": kind(bounds[1])}
    return model_of(nodes, constants, ["y"])


def test_the_width_is_what_the_bounds_say_exactly(convert, tmp_path):
    back = tmp_path / "back.onnx"
    says = {}
    for bits, signed, narrow in formats(range(1, 9)):
        half = 2 ** (bits - 1)
        low, high = (narrow - half, half - 1) if signed else (0, 2 * half - 1 - narrow)
        says[low, high] = bits, signed, narrow
    for (low, high), form in says.items():
        kind = np.uint8 if low == 0 else np.int8
        convert("from", qcdq((low, high), kind), back)
        assert quantizers(back)["y"].format == form
    convert("from", qcdq((0, 7), np.int8), back)
    assert quantizers(back)["y"].format == (3, 0, 0)  # no sign, whatever the container
    for low, high in [(-3, 10), (-1, 0), (0, 0), (1, 2), (-8, 6), (-6, 7), (0, 4), (5, 3), (-128, 126)]:
        message = convert("from", qcdq((low, high)), back, error=True)
        assert "'third'" in message and "which no width says" in message


def test_scales_left_out_zero_points_and_shared_quantizers(convert, tmp_path):
    back = tmp_path / "back.onnx"
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"], name="one"),
        helper.make_node("DequantizeLinear", ["q", "s"], ["a"], name="two"),
        helper.make_node("DequantizeLinear", ["q", "s", ""], ["b"], name="three"),
        helper.make_node("Add", ["a", "b"], ["y"], name="sum"),
        helper.make_node("DequantizeLinear", ["q", "s"], ["y2"], name="four"),
    ]
    model = model_of(nodes, {"s": np.float32(0.25)}, ["y", "y2"])
    convert("from", model, back)
    found = quantizers(back)
    assert sorted(found) == ["a", "y2"]  # the second is another one's; an output keeps its name
    assert all(one.format == (8, 0, 0) for one in found.values())
    x = np.random.default_rng(3).normal(size=(2, 3)).astype(np.float32) * 40
    onnx.save(model, tmp_path / "first.onnx")
    want = expected(Case(None, np.float32(0.25), 8, 0, 0), x)
    assert np.array_equal(run(tmp_path / "first.onnx", x)["y2"], want)


def test_what_qonnx_cannot_say_is_one_error(convert, tmp_path):
    back = tmp_path / "back.onnx"

    def error(nodes, constants, outputs=("y",), **more):
        return convert("from", model_of(nodes, constants, list(outputs), **more), back, error=True)

    quantize = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="first")
    dequantize = helper.make_node("DequantizeLinear", ["q", "t", "z"], ["y"], name="last")
    constants = {"s": np.float32(0.5), "z": np.int8(0), "t": np.float32(0.25)}
    assert "'last'" in (message := error([quantize, dequantize], constants)) and "another scale" in message

    dynamic = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "t", "z"], name="dynamic")
    message = error([dynamic, dequantize], {})
    assert "'dynamic'" in message and "'last'" in message and "computes" in message

    integers_in = [helper.make_node("DequantizeLinear", ["x", "t"], ["y"], name="last")]
    message = error(integers_in, {"t": np.float32(1)}, kinds={"x": TensorProto.INT8})
    assert "an input of the graph" in message

    out = [quantize, helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="last")]
    message = error(out, constants, outputs=("y", "q"), kinds={"q": TensorProto.INT8})
    assert "'first'" in message and "'last'" not in message

    narrow = [
        helper.make_node("Clip", ["w", "lo", "hi"], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "t"], ["y"], name="last"),
    ]
    bounds = {"w": np.ones((2, 3), np.int8), "lo": np.int8(-3), "hi": np.int8(10), "t": np.float32(1)}
    assert "[-3, 10]" in error(narrow, bounds)

    for axis in (2, -3):
        node = helper.make_node("DequantizeLinear", ["w", "t"], ["y"], name="last", axis=axis)
        message = error([node], {"w": np.ones((2, 3), np.int8), "t": np.float32([1, 2, 3])})
        assert "'last'" in message and "along axis" in message

    zero = [helper.make_node("DequantizeLinear", ["w", "t"], ["y"], name="last")]
    assert "'last'" in error(zero, {"w": np.ones((2, 3), np.int8), "t": np.float32(0)})
    big = {"w": np.full((2, 3), 2**24 + 1, np.int32), "t": np.float32(0.3)}
    convert("from", model_of(zero, big, ["y"]), back)  # float32 has no such integer, but the value is the same
    assert quantizers(back)["y"].format == (32, 1, 0)


def test_biases_of_32_bits(convert, tmp_path):
    rng = np.random.default_rng(4)
    codes = rng.integers(-(2**22), 2**22, size=37).astype(np.int32)
    scale = (rng.random(37) * 1e-3).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "t"], ["b"], name="bias", axis=0),
        helper.make_node("Add", ["x", "b"], ["y"], name="add"),
    ]
    model = model_of(nodes, {"w": codes, "t": scale}, ["y"], shape=(2, 37))
    back = tmp_path / "back.onnx"
    convert("from", model, back)
    one = quantizers(back)["b"]
    assert one.format == (32, 1, 0) and one.scale.shape == (37,)
    case = Case(one.data, one.scale, 32)
    assert np.array_equal(expected(case, None), codes.astype(np.float32) * scale)
    assert np.array_equal(integers(one.data, one.scale, 0, 32, 1, 0, "ROUND"), codes)
    convert("to", back, tmp_path / "there.onnx")
    (tensor,) = [t for t in onnx.load(tmp_path / "there.onnx").graph.initializer if t.data_type == TensorProto.INT32]
    assert np.array_equal(numpy_helper.to_array(tensor), codes)


@pytest.mark.parametrize("per_channel", [False, True])
def test_files_of_onnxruntimes_quantizer(convert, check_agree, crumb, engine, tmp_path, per_channel):
    quantization = pytest.importorskip("onnxruntime.quantization")
    rng = np.random.default_rng(5)

    def normal(*shape):
        return (rng.normal(size=shape) * 0.3).astype(np.float32)

    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
        helper.make_node("MatMul", ["f", "m"], ["y"], name="matmul"),
    ]
    model = model_of(nodes, {"w": normal(5, 3, 3, 3), "b": normal(5), "m": normal(5, 4)}, ["y"], shape=(1, 3, 9, 7))
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    for size in (1, 4):
        model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = size
    onnx.save(model, tmp_path / "float.onnx")

    class Data(quantization.CalibrationDataReader):
        def __init__(self):
            self.left = [{"x": normal(1, 3, 9, 7)} for _ in range(4)]

        def get_next(self):
            return self.left.pop() if self.left else None

    quantization.quantize_static(
        str(tmp_path / "float.onnx"), str(tmp_path / "theirs.onnx"), Data(),
        quant_format=quantization.QuantFormat.QDQ, per_channel=per_channel,
    )  # fmt: skip
    report = convert("from", tmp_path / "theirs.onnx", tmp_path / "back.onnx")
    assert not {"QuantizeLinear", "DequantizeLinear"} & set(counts(tmp_path / "back.onnx"))
    x = normal(1, 3, 9, 7)
    np.save(tmp_path / "x.npy", x)
    crumb("run", tmp_path / "back.onnx", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    (want,) = run(tmp_path / "theirs.onnx", x).values()
    check_agree(tmp_path / "back.onnx", x, np.load(tmp_path / "y.npy"), want)
    there = tmp_path / "there.onnx"
    assert convert("to", tmp_path / "back.onnx", there) == report
    (found,) = run(there, x).values()
    assert np.array_equal(found, want)

"""crumb export and crumb convert: files that qonnx and onnxruntime run to the same outputs, with the same integers."""

import json
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

warnings.filterwarnings("ignore")

QUANTIZED = ["TFC_1W1A", "TFC_1W2A", "TFC_2W2A", "espcn_nn_resize_quant", "espcn_subpixel_quant", "floatquant_fp8_e4m3"]
FLOAT = ["mnist_conv_float", "espcn_nn_resize_float", "espcn_subpixel_float", "residual_block_clean"]
QONNX = "qonnx.custom_op.general"


def sample(networks, path):
    """Of an image where the model takes one: behind noise, each step of a quantizer is many behind the next ones."""
    value = onnx.load(path).graph.input[0]
    shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
    image = numpy_helper.to_array(onnx.load_tensor(networks / "espcn_input_0.pb"))
    return image if list(image.shape) == shape else np.random.default_rng(42).random(shape).astype(np.float32)


def by_qonnx(path, x, clean=False):
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx
    from qonnx.util.cleanup import cleanup_model

    model = ModelWrapper(str(path))
    if clean:
        model = cleanup_model(model)
    return execute_onnx(model, {model.graph.input[0].name: x})[model.graph.output[0].name]


def by_onnxruntime(path, x):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


@pytest.mark.parametrize("name", QUANTIZED + FLOAT)
def test_qonnx_runs_what_is_exported_for_it(crumb, check_agree, networks, tmp_path, name):
    source = networks / f"{name}.onnx"
    out = tmp_path / "out.onnx"
    crumb("export", source, "-o", out, "--to", "qonnx")
    onnx.checker.check_model(onnx.load(out))
    crumb("lint", out, "--for", "qonnx")
    x = sample(networks, source)
    want = by_onnxruntime(source, x) if name in FLOAT else by_qonnx(source, x, clean=True)
    check_agree(source, x, by_qonnx(out, x), want)


@pytest.mark.parametrize("name", QUANTIZED + FLOAT)
def test_onnxruntime_runs_what_is_exported_for_it(crumb, check_agree, networks, tmp_path, name):
    source = networks / f"{name}.onnx"
    x = sample(networks, source)
    want = by_onnxruntime(source, x) if name in FLOAT else by_qonnx(source, x, clean=True)
    for form in ("qcdq", "float"):
        out = tmp_path / f"{form}.onnx"
        if form == "float" and name == "floatquant_fp8_e4m3":
            continue  # minifloats have no such form: it is refused
        crumb("export", source, "-o", out, "--to", form)
        onnx.checker.check_model(onnx.load(out))
        assert {node.domain for node in onnx.load(out).graph.node} == {""}
        check_agree(source, x, by_onnxruntime(out, x), want)


@pytest.mark.parametrize("name", QUANTIZED + FLOAT)
def test_a_packed_file_computes_what_its_network_does(crumb, networks, tmp_path, name):
    source, packed = networks / f"{name}.onnx", tmp_path / "packed.crumb"
    done = crumb("export", source, "-o", packed, "--to", "packed")
    assert "read back, all numbers are the same" in done.stdout
    crumb("verify", packed)
    np.save(tmp_path / "x.npy", sample(networks, source))
    made = {}
    for model in (source, packed):
        crumb("run", model, "--engine", "runtime", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
        made[model] = np.load(tmp_path / "y.npy").tobytes()
    assert made[source] == made[packed]
    # The same integers come out of it again.
    for model in (source, packed):
        crumb("export", model, "-o", tmp_path / f"{model.suffix[1:]}_again.onnx", "--to", "qonnx")
    again = [sorted(map(repr, quantizers(tmp_path / f"{suffix}_again.onnx"))) for suffix in ("onnx", "crumb")]
    again = [[text.replace("'has_nan': 1", "'has_nan': 0") for text in texts] for texts in again]  # none among weights
    assert again[0] == again[1] and bool(again[0]) == (name in QUANTIZED)


def test_packed_files_are_crumb_files_and_have_no_operator_set(crumb, networks, tmp_path):
    source = networks / "mnist_conv_float.onnx"
    said = crumb("export", source, "-o", tmp_path / "o.onnx", "--to", "packed", status=2).stderr
    assert "a packed file, give a name that ends in .crumb" in said
    said = crumb("export", source, "-o", tmp_path / "o.crumb", "--to", "qonnx", status=2).stderr
    assert "ONNX, give a name that ends in .onnx" in said
    assert "--opset" in crumb("export", source, "-o", tmp_path / "o.crumb", "--to", "packed", "--opset", "13", status=2).stderr
    assert not list(tmp_path.iterdir())


def quantizers(path):
    """(bits, signed, narrow, levels, scale) of every Quant of a constant, in order; of others without levels."""
    graph = onnx.load(path).graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    found = []
    for node in graph.node:
        if node.domain != QONNX:
            continue
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        scale = constants[node.input[1]]
        levels = None
        if node.input[0] in constants:
            levels = np.round(constants[node.input[0]] / scale).astype(int).tolist()
        rest = [constants[name].tolist() for name in node.input[2:]]
        found.append((node.op_type, attributes, scale.tolist(), rest, levels))
    return found


@pytest.mark.parametrize("name", ["TFC_1W1A", "TFC_1W2A", "TFC_2W2A", "espcn_nn_resize_quant", "espcn_subpixel_quant"])
@pytest.mark.parametrize("flags", [[], ["--weights-as-float"], ["--opset", "21", "--native-types"]])
def test_there_and_back_keeps_every_integer(crumb, networks, tmp_path, name, flags):
    first, there, back = (tmp_path / file for file in ("first.onnx", "there.onnx", "back.onnx"))
    crumb("convert", networks / f"{name}.onnx", first, "--to", "qonnx")
    crumb("convert", first, there, "--to", "qcdq", *flags)
    crumb("convert", there, back, "--to", "qonnx")
    assert quantizers(first) == quantizers(back)


def test_every_weight_is_rounded_to_nearest_whatever_its_file_says(crumb, tmp_path):
    rng = np.random.default_rng(3)
    weight = rng.normal(size=(6, 4)).astype(np.float32)
    scale = np.full((1, 4), 0.3, np.float32)
    floor = np.clip(np.floor(weight / scale), -7, 7)

    def model(mode):
        nodes = [
            helper.make_node("Quant", ["w", "s", "z", "b"], ["wq"], domain=QONNX, signed=1, narrow=1, rounding_mode=mode),
            helper.make_node("MatMul", ["x", "wq"], ["y"]),
        ]
        tensors = {"w": weight, "s": scale, "z": np.float32(0), "b": np.float32(4)}
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
            [numpy_helper.from_array(np.asarray(value), name) for name, value in tensors.items()],
        )
        opsets = [helper.make_opsetid("", 13), helper.make_opsetid(QONNX, 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "in.onnx")

    model("FLOOR")
    crumb("export", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--to", "qonnx")
    ((op, attributes, _, _, levels),) = quantizers(tmp_path / "out.onnx")
    assert op == "Quant" and attributes["rounding_mode"] == b"ROUND"
    assert levels == floor.astype(int).tolist()
    crumb("export", tmp_path / "in.onnx", "-o", tmp_path / "q.onnx", "--to", "qcdq")
    stored = [numpy_helper.to_array(t) for t in onnx.load(tmp_path / "q.onnx").graph.initializer]
    assert any(t.dtype == np.int8 and t.shape == (6, 4) and (t == floor).all() for t in stored)


def test_integer_view_and_accumulators(crumb, check_agree, networks, tmp_path):
    source = networks / "TFC_2W2A.onnx"
    out, config = tmp_path / "out.onnx", tmp_path / "acc.json"
    crumb("export", source, "-o", out, "--to", "qonnx", "--integer-view", "--accumulator-config", config)
    for op, _, scale, _, levels in quantizers(out):
        assert op == "Quant" and scale == 1
        assert levels is None or set(np.unique(levels)) <= {-1, 0, 1}
    x = sample(networks, source)
    check_agree(source, x, by_qonnx(out, x), by_qonnx(source, x, clean=True))

    crumb("export", source, "-o", out, "--to", "qonnx", "--accumulator-config", config)
    told = json.loads(config.read_text())
    graph = onnx.load(out).graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    weights = {node.output[0]: constants[node.input[0]] / constants[node.input[1]] for node in graph.node if node.input[0] in constants}
    layers = [node for node in graph.node if node.op_type == "MatMul"]
    assert set(told) == {"hls4ml"}
    for node in layers:
        worst = np.abs(weights[node.input[1]]).sum(0).max()  # inputs are -1, 0, 1
        bits = int(np.ceil(np.log2(worst + 1))) + 1
        assert told["hls4ml"]["LayerName"][node.name]["Precision"]["accum"] == f"ap_fixed<{bits},{bits}>"  # scales of 1


@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize(("scales", "exponent"), [((0.25, 0.5), -3), ((2.0, 1.0), 1), ((0.3, 0.5), -1), ((0.25, 0.7), -2)])
def test_accumulators_in_the_words_of_hls4ml(crumb, tmp_path, signed, scales, exponent):
    rng = np.random.default_rng(4)
    levels = rng.integers(-7 * signed, 8, (11, 3))
    nodes = [
        helper.make_node("Quant", ["x", "s", "z", "xb"], ["xq"], domain=QONNX, signed=signed, narrow=0, rounding_mode="ROUND"),
        helper.make_node("Quant", ["w", "t", "z", "wb"], ["wq"], domain=QONNX, signed=1, narrow=1, rounding_mode="ROUND"),
        helper.make_node("MatMul", ["xq", "wq"], ["y"], name="layer"),
    ]
    tensors = {"s": scales[0], "t": scales[1], "z": 0, "xb": 3, "wb": 4, "w": levels * np.float32(scales[1])}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 11])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in tensors.items()],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(QONNX, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    out, config = tmp_path / "o.onnx", tmp_path / "c.json"
    crumb("export", tmp_path / "m.onnx", "-o", out, "--to", "qonnx", "--accumulator-config", config)
    told = json.loads(config.read_text())
    (layer,) = [node.name for node in onnx.load(out).graph.node if node.op_type == "MatMul"]
    low, high = (-4, 3) if signed else (0, 7)
    ends = np.stack([levels * low, levels * high])
    least, most = ends.min(0).clip(max=0).sum(0).min(), ends.max(0).clip(min=0).sum(0).max()
    bits = int(max(most, -least - 1)).bit_length() + (least < 0)
    sign = "" if least < 0 else "u"
    wanted = f"ap_{sign}fixed<{bits},{bits + exponent}>"  # a scale that is no power of two is multiplied by behind
    assert told["hls4ml"]["LayerName"][layer]["Precision"] == {"accum": wanted, "result": wanted}


def test_profiles(crumb, check_agree, networks, tmp_path):
    for name in ("TFC_2W2A", "espcn_nn_resize_quant"):
        source = networks / f"{name}.onnx"
        out = tmp_path / "finn.onnx"
        crumb("export", source, "-o", out, "--to", "qonnx", "--profile", "finn")
        crumb("lint", out, "--for", "finn")
        crumb("lint", out, "--for", "qonnx")
        x = sample(networks, source)
        check_agree(source, x, by_qonnx(out, x), by_qonnx(source, x, clean=True))
    done = crumb("export", networks / "floatquant_fp8_e4m3.onnx", "-o", tmp_path / "no.onnx", "--to", "qonnx",
                 "--profile", "finn", status=1)
    assert "FINN has no FloatQuant" in done.stderr and not (tmp_path / "no.onnx").exists()


RECIPE = """version: 1
weights: int8:tensor:scale=e8m0
activations: uint8:tensor:scale=e8m0
"""


def test_a_quantized_cnn_for_every_profile(crumb, check_agree, engine, networks, tmp_path):
    source = networks / "mnist_conv_float.onnx"
    x = np.random.default_rng(1).integers(0, 256, (16, 1, 28, 28)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "r.yaml").write_text(RECIPE)
    packed = tmp_path / "q.crumb"
    crumb("quantize", source, "-o", packed, "--recipe", tmp_path / "r.yaml", "--data", tmp_path / "x.npy")
    crumb("run", packed, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    want = np.load(tmp_path / "y.npy")
    for profile in ("qonnx", "finn", "hls4ml"):
        out = tmp_path / f"{profile}.onnx"
        crumb("export", packed, "-o", out, "--to", "qonnx", "--profile", profile)
        crumb("lint", out, "--for", profile)
        assert ("channels_last" in str(onnx.load(out).opset_import)) == (profile == "hls4ml")
        for image, expected in zip(x[:3], want[:3]):
            check_agree(tmp_path / "qonnx.onnx", image[None], by_qonnx(out, image[None]), expected[None])


def test_wrong_usage(crumb, networks, tmp_path):
    source = networks / "TFC_2W2A.onnx"
    done = crumb("export", source, "-o", tmp_path / "o.onnx", "--to", "qcqd", status=2)
    assert "qcdq" in done.stderr
    done = crumb("export", source, "-o", tmp_path / "o.onnx", "--to", "float", "--profile", "finn", status=2)
    assert "--profile is for --to qonnx" in done.stderr
    done = crumb("export", source, "-o", source, "--to", "float", status=2)
    assert source.is_file()
    done = crumb("export", source, "-o", tmp_path / "o.onnx", "--to", "qonnx", "--shape", "nobody=1x2", status=1)
    assert "nobody" in done.stderr
    for verb in (["export", source, "-o"], ["convert", source]):
        done = crumb(*verb, tmp_path / "o.txt", "--to", "qcdq", status=2)
        assert ".onnx" in done.stderr
        done = crumb(*verb, tmp_path / "o.onnx", "--to", "qcdq", "--opset", "0", status=2)
        assert "operator set of ONNX" in done.stderr
        done = crumb(*verb, tmp_path / "o.onnx", "--to", "qonnx", "--profile", "onnxruntime", status=2)
        assert "qcdq" in done.stderr
    assert not any(tmp_path.glob("o.*"))


def test_no_output_overwrites_an_input(crumb, engine, networks, tmp_path):
    source = networks / "TFC_2W2A.onnx"
    model = tmp_path / "m.onnx"
    model.write_bytes(source.read_bytes())
    np.save(tmp_path / "x.npy", sample(networks, source))
    before = {path: path.read_bytes() for path in (model, tmp_path / "x.npy")}
    out = tmp_path / "o.onnx"
    crumb("export", model, "-o", out, "--to", "qonnx", "--accumulator-config", model, status=2)
    crumb("export", model, "-o", out, "--to", "qonnx", "--accumulator-config", out, status=2)
    crumb("export", model, "-o", out, "--to", "qonnx", "--accumulator-config", tmp_path / "none" / "a.json", status=1)
    assert not out.exists()
    for name in ("x.npy", "m.onnx"):
        crumb("run", model, "--input", tmp_path / "x.npy", "--output", tmp_path / name, status=2)
    data = tmp_path / "x.onnx"
    data.write_bytes((tmp_path / "x.npy").read_bytes())
    crumb("quantize", model, "-o", data, "--weights", "int4", "--data", data, status=2)
    assert all(path.read_bytes() == content for path, content in before.items())


def test_a_flattened_image_before_a_dense_layer_for_hls4ml(crumb, check_agree, tmp_path):
    rng = np.random.default_rng(2)
    tensors = {"w": rng.normal(size=(4, 3, 3, 3)), "b": rng.normal(size=4), "v": rng.normal(size=(5, 64)), "c": rng.normal(size=5)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("Gemm", ["f", "v", "c"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    out, plain = tmp_path / "h.onnx", tmp_path / "p.onnx"
    spec = ["--weights", "int6:tensor:scale=e8m0"]
    crumb("quantize", tmp_path / "m.onnx", "-o", plain, *spec)
    crumb("export", plain, "-o", out, "--to", "qonnx", "--profile", "hls4ml")
    x = rng.normal(size=(1, 3, 4, 4)).astype(np.float32)
    check_agree(plain, x, by_qonnx(out, x), by_qonnx(plain, x))

"""Activations with one scale for each token, found as the values come: quantize, files, other programs."""

import json
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

TINY = np.float32(2.0**-100)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def save(path, nodes, shape, opset=13, **tensors):
    graph = h.make_graph(
        nodes, "g",
        [h.make_tensor_value_info("x", T.FLOAT, shape)], [h.make_tensor_value_info("y", T.FLOAT, [None] * len(shape))],
        [nh.from_array(array, name) for name, array in tensors.items()],
    )  # fmt: skip
    for i, node in enumerate(nodes):
        node.name = f"{node.op_type}_{i}"
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path


def block(path, opset=13, batch=2):
    """Two dense layers with a residual sum around them."""
    nodes = [
        h.make_node("MatMul", ["x", "up.weight"], ["a"]), h.make_node("Add", ["a", "up.bias"], ["b"]),
        h.make_node("Relu", ["b"], ["c"]),
        h.make_node("MatMul", ["c", "down.weight"], ["d"]), h.make_node("Add", ["d", "x"], ["y"]),
    ]  # fmt: skip
    tensors = {"up.weight": floats(6, 10, seed=1), "up.bias": floats(10, seed=2), "down.weight": floats(10, 6, seed=3)}
    return save(path, nodes, [batch, 5, 6], opset, **tensors)


def by_token(x, greatest):
    scale = np.maximum(np.abs(x).max(-1, keepdims=True), TINY) / np.float32(greatest)
    return (np.rint(x / scale) * scale).astype(np.float32)


def expected(model, x, first=127, second=255):
    w = {t.name: nh.to_array(t) for t in onnx.load(model).graph.initializer}
    a = np.maximum(by_token(x, first) @ w["up.weight"] + w["up.bias"], 0)
    return by_token(a, second) @ w["down.weight"] + x


@pytest.fixture
def x(tmp_path):
    array = floats(2, 5, 6, seed=9) * np.float32([1, 100, 1e-3, 5, 0])[None, :, None]  # the last token is all zeros
    np.save(tmp_path / "x.npy", array)
    return array


def run(crumb, model, tmp_path):
    crumb("run", model, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    return np.load(tmp_path / "y.npy")


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("opset", [13, 18, 21])
def test_every_token_has_its_scale_without_calibration_data(crumb, tmp_path, x, opset):
    model, out = block(tmp_path / "m.onnx", opset), tmp_path / "q.onnx"
    done = crumb("quantize", model, "-o", out, "--weights", "keep", "--activations", "uint8:token", "--json")
    report = json.loads(done.stdout)
    assert [(e["value"], e["spec"], e["scale"]) for e in report["activations"]] == [
        ("x", "int8:token", None), ("c", "uint8:token", None)]  # fmt: skip
    # The residual sum takes x as it is; zeros stay zeros.
    y = run(crumb, out, tmp_path)
    np.testing.assert_allclose(y, expected(model, x), rtol=1e-5, atol=1e-5)
    assert np.isfinite(y).all()
    crumb("quantize", model, "-o", tmp_path / "q.crumb", "--weights", "keep", "--activations", "uint8:token")
    np.testing.assert_array_equal(run(crumb, tmp_path / "q.crumb", tmp_path), y)


@pytest.mark.usefixtures("engine")
def test_qonnx_executes_it(crumb, tmp_path, x):
    pytest.importorskip("qonnx")
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx

    model, out = block(tmp_path / "m.onnx"), tmp_path / "q.onnx"
    crumb("quantize", model, "-o", out, "--weights", "int8", "--activations", "int8:token")
    found = execute_onnx(ModelWrapper(str(out)), {"x": x})["y"]
    np.testing.assert_allclose(found, run(crumb, out, tmp_path), rtol=1e-5, atol=1e-5)


def test_sums_of_integers_are_known_whatever_the_scales(crumb, tmp_path, x):
    model, out = block(tmp_path / "m.onnx"), tmp_path / "q.onnx"
    crumb("quantize", model, "-o", out, "--weights", "int8", "--activations", "uint8:token")
    done = json.loads(crumb("verify", out, "--accumulator", "--json", "--witness", tmp_path / "w").stdout)
    constants = {t.name: nh.to_array(t) for t in onnx.load(out).graph.initializer}
    nodes = onnx.load(out).graph.node
    by_output = {n.output[0]: n for n in nodes}
    quants = [by_output[n.input[1]] for n in nodes if n.op_type == "MatMul"]
    assert len(quants) == len(done["layers"]) == 2
    for quant, layer, (low, high) in zip(quants, done["layers"], [(-127, 127), (0, 255)], strict=True):
        w = np.rint(constants[quant.input[0]] / constants[quant.input[1]])
        most = (np.maximum(w, 0) * high + np.minimum(w, 0) * low).sum(0).max()
        assert layer["worst_max"] == most and layer["bits_needed"]
    refused = crumb("run", out, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", "--accumulator", 20,
                    "--overflow", "wrap", status=1)  # fmt: skip
    assert "is no constant" in refused.stderr


@pytest.mark.usefixtures("engine")
def test_minifloats_and_an_input_of_one_axis(crumb, tmp_path):
    model = save(tmp_path / "m.onnx", [h.make_node("MatMul", ["x", "w"], ["y"])], [7], w=floats(7, 3))
    np.save(tmp_path / "x.npy", floats(7, seed=4))
    out = tmp_path / "q.onnx"
    crumb("quantize", model, "-o", out, "--weights", "keep", "--activations", "e4m3fn:token")
    y = run(crumb, out, tmp_path)
    exact = np.load(tmp_path / "x.npy") @ floats(7, 3)
    assert 0 < np.abs(y - exact).max() < 0.2
    quant = next(n for n in onnx.load(out).graph.node if n.op_type == "FloatQuant")
    assert quant.input[1] not in {t.name for t in onnx.load(out).graph.initializer}  # the scale is computed


def test_what_multiplies_no_tokens_keeps_what_it_takes_and_is_named(crumb, tmp_path):
    nodes = [h.make_node("Conv", ["x", "w"], ["c"]), h.make_node("Relu", ["c"], ["r"]),
             h.make_node("Conv", ["r", "v"], ["y"])]  # fmt: skip
    model = save(tmp_path / "m.onnx", nodes, [1, 3, 6, 6], w=floats(4, 3, 3, 3), v=floats(2, 4, 3, 3))
    done = crumb("quantize", model, "-o", tmp_path / "q.onnx", "--weights", "int8", "--activations", "int8:token")
    assert "what node 'Conv_0' (Conv), node 'Conv_1' (Conv) takes stays" in done.stderr
    assert not [n for n in onnx.load(tmp_path / "q.onnx").graph.node if n.op_type == "ReduceMax"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--weights", "int8:token"], ["'token' is for activations"]),
        (["--weights", "int8", "--activations", "int8:token:zero=int"], ["tokens have no zero point"]),
        (["--weights", "int8", "--activations", "int8:token:search=mse"], ["search=mse", "absmax"]),
        (["--weights", "int8", "--activations", "int8:token:scale=e8m0"], ["scale=e8m0", "f32"]),
        (["--weights", "int8", "--activations", "binary:token"], ["binary", "integers and minifloats"]),
        (["--weights", "int8", "--activations", "int8:token", "--biases", "int32"], ["MatMul_0", "int8:token", "constant"]),
    ],
)
def test_what_cannot_be_is_refused(crumb, tmp_path, flags, words):
    model = block(tmp_path / "m.onnx")
    refused = crumb("quantize", model, "-o", tmp_path / "q.onnx", *flags, status=None)
    assert refused.returncode in (1, 2) and not (tmp_path / "q.onnx").exists()
    for word in words:
        assert word in refused.stderr


@pytest.mark.usefixtures("engine")
def test_a_rule_gives_tokens_to_one_layer_and_a_constant_scale_to_the_other(crumb, tmp_path, x):
    model = block(tmp_path / "m.onnx")
    recipe = tmp_path / "r.yaml"
    recipe.write_text("version: 1\nweights: keep\nactivations: uint8:tensor\ninputs: int8:token\n")
    out = tmp_path / "q.onnx"
    crumb("quantize", model, "-o", out, "--recipe", recipe, "--data", tmp_path / "x.npy")
    quants = [n for n in onnx.load(out).graph.node if n.op_type == "Quant"]
    constants = {t.name for t in onnx.load(out).graph.initializer}
    assert sorted(n.input[1] in constants for n in quants) == [False, True]  # the sum at the end stays in floats


def test_consumers_with_constant_scales_refuse_it_by_name(crumb, tmp_path):
    model, out = block(tmp_path / "m.onnx"), tmp_path / "q.onnx"
    for form in (["--to", "qcdq"], *(["--profile", name, "--biases", "keep"] for name in ("finn", "hls4ml"))):
        refused = crumb("quantize", model, "-o", out, "--weights", "int8", "--activations", "int8:token", *form, status=None)
        assert refused.returncode == 1 and not out.exists()
        assert re.search("Quant_0.*scale is computed|x_quant.*scale that is computed", refused.stderr), refused.stderr

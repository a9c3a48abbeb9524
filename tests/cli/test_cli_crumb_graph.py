"""Graphs in packed files: every verb takes them, they compute what the ONNX file computes, and a stranger can read them
from docs/crumb_file.md alone."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "formats" / "crumb_file"))
import crumb_reader  # noqa: E402

NETWORKS = ["TFC_1W1A", "TFC_1W2A", "TFC_2W2A", "espcn_nn_resize_quant", "espcn_subpixel_quant",
            "floatquant_fp8_e4m3", "residual_block_clean", "sdp_float", "mnist_conv_float"]


def stranger_reads(path):
    """The structure, and values for those of its inputs that are tensors, as docs/crumb_file.md says."""
    model = onnx.load_from_string(crumb_reader.read_files(path)["graph.onnx"])
    own = int({entry.key: entry.value for entry in model.metadata_props}["crumb.inputs"])
    tensors = crumb_reader.read(path)
    assert [value.name for value in model.graph.input[own:]] == sorted(tensors)
    return model, tensors, [value.name for value in model.graph.input[:own]]


@pytest.fixture
def packed(crumb, tmp_path):
    def pack(source):
        path = tmp_path / (source.stem + ".crumb")
        crumb("passes", source, "-o", path, "tidy")
        return path

    return pack


@pytest.fixture
def network(networks):
    return lambda name: networks / f"{name}.onnx"


def random_inputs(model, folder):
    """A file for each input of a model, and the flags that name it."""
    rng = np.random.default_rng(7)
    constants = {tensor.name for tensor in model.graph.initializer}
    flags, arrays = [], {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
        arrays[value.name] = rng.uniform(0, 1, shape).astype(np.float32)
        file = folder / f"input_{len(arrays)}.npy"
        np.save(file, arrays[value.name])
        flags += ["--input", f"{value.name}={file}"]
    return flags, arrays


def outputs_of(crumb, path, flags, folder):
    crumb("run", path, *flags, "--output-dir", folder)
    return {file.name: np.load(file) for file in folder.iterdir()}


@pytest.mark.parametrize("name", NETWORKS)
def test_runs_like_its_onnx_file(name, network, packed, crumb, engine, tmp_path):
    source = network(name)
    path = packed(source)
    flags, _ = random_inputs(onnx.load(source), tmp_path)
    want = outputs_of(crumb, source, flags, tmp_path / "want")
    got = outputs_of(crumb, path, flags, tmp_path / "got")
    assert want.keys() == got.keys() and want
    for key, array in want.items():
        np.testing.assert_array_equal(got[key], array)


@pytest.mark.parametrize("name", NETWORKS)
def test_costs_what_its_onnx_file_costs(name, network, packed, crumb):
    source = network(name)
    flags = ["--json"]
    want = json.loads(crumb("cost", source, *flags).stdout)
    got = json.loads(crumb("cost", packed(source), *flags).stdout)
    assert got == want


@pytest.mark.parametrize("name", ["TFC_1W1A", "TFC_2W2A", "espcn_subpixel_quant", "floatquant_fp8_e4m3"])
def test_a_stranger_evaluates_it(name, network, packed, tmp_path):
    modelwrapper = pytest.importorskip("qonnx.core.modelwrapper")
    execute = pytest.importorskip("qonnx.core.onnx_exec").execute_onnx
    infer_shapes = pytest.importorskip("qonnx.transformation.infer_shapes").InferShapes
    source = network(name)
    original = onnx.load(source)
    _, arrays = random_inputs(original, tmp_path)
    structure, tensors, own = stranger_reads(packed(source))
    assert own == list(arrays)

    def evaluate(model, inputs):
        wrapped = modelwrapper.ModelWrapper(model).transform(infer_shapes())
        return execute(wrapped, inputs)

    for constant in [value for value in structure.graph.input if value.name in tensors]:
        structure.graph.input.remove(constant)
    structure.graph.initializer.extend(nh.from_array(array, tensor) for tensor, array in tensors.items())
    got, want = evaluate(structure, arrays), evaluate(original, arrays)
    assert want.keys() == got.keys() and want
    for key, array in want.items():
        np.testing.assert_array_equal(got[key], array)


def quant(name, data, out, tensors, **attributes):
    """A Quant node with scale, zero point and width from `tensors`."""
    inputs = [data, f"{name}_scale", f"{name}_zero", f"{name}_bits"]
    assert all(entry in tensors for entry in inputs[1:])
    return h.make_node("Quant", inputs, [out], name=name, domain="qonnx.custom_op.general", **attributes)


@pytest.fixture
def weights_only(tmp_path):
    """Conv, a Gemm by a matrix quantized in groups, and a large float table."""
    rng = np.random.default_rng(3)
    tensors = {
        "conv": rng.standard_normal((8, 3, 3, 3)), "q1_scale": rng.uniform(0.1, 1, (8, 1, 1, 1)), "q1_zero": 0.0,
        "q1_bits": 4.0, "dense": rng.standard_normal((16, 8, 5)), "q2_scale": rng.uniform(0.1, 1, (16, 1, 5)),
        "q2_zero": 1.0, "q2_bits": 3.0, "table": rng.standard_normal((5, 300)), "bias": rng.standard_normal(8)}
    tensors = {name: np.asarray(array, np.float32) for name, array in tensors.items()}
    shapes = {"rows": np.array([1, -1]), "matrix": np.array([128, 5])}
    nodes = [
        quant("q1", "conv", "conv_q", tensors, signed=1, narrow=1, rounding_mode="ROUND"),
        h.make_node("Conv", ["x", "conv_q", "bias"], ["features"], pads=[0, 0, 0, 0]),
        h.make_node("Reshape", ["features", "rows"], ["flat"]),
        quant("q2", "dense", "groups", tensors, signed=0, narrow=0, rounding_mode="FLOOR"),
        h.make_node("Reshape", ["groups", "matrix"], ["dense_q"]),
        h.make_node("MatMul", ["flat", "dense_q"], ["hidden"]),
        h.make_node("MatMul", ["hidden", "table"], ["y"])]
    graph = h.make_graph(
        nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, (1, 3, 6, 6))],
        [h.make_tensor_value_info("y", T.FLOAT, (1, 300))],
        [nh.from_array(array, name) for name, array in {**tensors, **shapes}.items()])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 13), h.make_opsetid("qonnx.custom_op.general", 1)],
                         ir_version=8)
    path = tmp_path / "weights.onnx"
    onnx.save(model, path)
    return path


def test_any_onnx_reader_takes_the_structure(weights_only, packed, crumb, engine, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    from onnx.reference import ReferenceEvaluator

    path = packed(weights_only)
    structure, tensors, own = stranger_reads(path)
    onnx.checker.check_model(structure, full_check=True)
    assert own == ["x"]
    assert {name: array.shape for name, array in tensors.items()} == {
        "conv_q": (8, 3, 3, 3), "dense_q": (5, 128), "table": (5, 300)}
    assert [node.op_type for node in structure.graph.node] == ["Transpose", "Conv", "Reshape", "MatMul", "MatMul"]
    x = np.random.default_rng(1).standard_normal((1, 3, 6, 6)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    crumb("run", path, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    want = np.load(tmp_path / "y.npy")
    session = ort.InferenceSession(structure.SerializeToString(), providers=["CPUExecutionProvider"])
    for got in (session.run(None, {"x": x, **tensors})[0], ReferenceEvaluator(structure).run(None, {"x": x, **tensors})[0]):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
    crumb("run", weights_only, "--input", tmp_path / "x.npy", "--output", tmp_path / "original.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "original.npy"), want)


def test_inspect_shows_tensors_and_graph(weights_only, packed, crumb, tmp_path):
    path = packed(weights_only)
    text = crumb("inspect", path, "--tensors", "--svg", tmp_path / "g.svg").stdout
    for word in ("model: graph", "holds graph.onnx", "int4:channel", "uint3:group=8:scale=f32:zero=int", "dense_q",
                 "Conv", "Quant int4"):
        assert word in text, word
    assert (tmp_path / "g.svg").read_text().startswith("<svg")
    shown = json.loads(crumb("inspect", path, "--json").stdout)
    assert shown["kind"] == "crumb"
    assert {row["name"]: row["spec"] for row in shown["tensors"]} == {
        "conv_q": "int4:channel", "dense_q": "uint3:group=8:scale=f32:zero=int", "table": None}
    assert [entry["name"] for entry in shown["graph"]["inputs"]] == ["x"]
    assert shown["graph"]["operators"]["MatMul"] == 2
    assert "graph" not in json.loads(crumb("inspect", path, "--json", "--tensors-only").stdout)


def test_the_tensor_verbs_see_its_tensors(weights_only, packed, crumb, tmp_path):
    path = packed(weights_only)
    assert "a graph" in crumb("verify", path).stdout
    crumb("dequantize", path, "-o", tmp_path / "f.safetensors")
    crumb("dequantize", path, "-o", tmp_path / "folder", "--shard", "1GB")
    assert (tmp_path / "folder" / "graph.onnx").read_bytes() == crumb_reader.read_files(path)["graph.onnx"]
    rows = json.loads(crumb("compare", tmp_path / "f.safetensors", path, "--json").stdout)["tensors"]
    assert sorted(row["name"] for row in rows) == ["conv_q", "dense_q", "table"]
    assert all(row["sqnr_db"] is None and row["exact_fraction"] == 1 for row in rows)
    crumb("lint", path, "--for", "qonnx", "--json", status=None)


def test_the_same_graph_gives_the_same_bytes(weights_only, packed, crumb, tmp_path):
    path = packed(weights_only)
    again = tmp_path / "again.crumb"
    crumb("passes", path, "-o", again, "tidy")
    assert again.read_bytes() == path.read_bytes()
    crumb("passes", path, "-o", tmp_path / "back.onnx", "tidy")
    back = onnx.load(tmp_path / "back.onnx")
    assert [node.op_type for node in back.graph.node].count("Quant") == 2


@pytest.mark.parametrize("verb", [["run", "--input", "x.npy", "--output", "y.npy"], ["cost"], ["lint", "--for", "finn"]])
def test_a_checkpoint_is_no_graph(verb, crumb, tmp_path):
    from safetensors.numpy import save_file

    save_file({"layer.weight": np.ones((4, 8), np.float32)}, tmp_path / "m.safetensors")
    crumb("quantize", tmp_path / "m.safetensors", "-o", tmp_path / "m.crumb", "--weights", "int4")
    said = crumb(verb[0], tmp_path / "m.crumb", *verb[1:], status=1).stderr
    assert "m.crumb" in said and "checkpoint" in said and "graph" in said


def test_a_damaged_graph_is_refused(weights_only, packed, crumb):
    path = packed(weights_only)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "graph.onnx" in crumb("cost", path, status=1).stderr
    assert "graph.onnx" in crumb("verify", path, status=1).stderr

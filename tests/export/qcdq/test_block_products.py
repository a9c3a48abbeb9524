"""onnxruntime's MatMulNBits and GatherBlockQuantized: what Crumb reads of them, and what `--weights-as MatMulNBits` writes.

Both sides run: onnxruntime and Crumb's engines, over drawn shapes, widths, zero points and scales, against the definition
(block_models.py).
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from block_models import RUNTIME, Drawn, attributes_of, drawn_model, pack, save, weight_of
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[2] / "formats" / "crumb_file"))
import crumb_reader  # noqa: E402

NODES = 40


def run_onnxruntime(path, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs), strict=True))


def run_crumb(crumb, path, inputs, folder, *flags):
    folder.mkdir()
    said = []
    for name, value in inputs.items():
        np.save(folder / f"{name}.npy", value)
        said += ["--input", f"{name}={folder / name}.npy"]
    crumb("run", path, *said, "--output-dir", folder / "out", *flags)
    return {file.stem: np.load(file) for file in (folder / "out").iterdir()}


def check(outputs, drawn):
    assert outputs.keys() == drawn.outputs.keys()
    for name, (exact, bound, dtype) in drawn.outputs.items():
        found = outputs[name]
        assert found.dtype == dtype and found.shape == np.shape(exact), name
        assert (np.abs(found.astype(np.float64) - exact) <= bound).all(), (name, np.abs(found - exact).max())


@pytest.fixture(scope="module", params=range(6))
def drawn(request, tmp_path_factory):
    made, weights = drawn_model(1000 + request.param, NODES)
    return made, weights, save(made.model(), tmp_path_factory.mktemp("drawn") / "net.onnx")


def test_onnxruntime_computes_what_the_definition_says(drawn):
    made, _, path = drawn
    check(run_onnxruntime(path, made.inputs), made)


def test_crumb_runs_what_others_wrote(crumb, drawn, tmp_path):
    made, _, path = drawn
    check(run_crumb(crumb, path, made.inputs, tmp_path / "runtime"), made)


def test_the_other_engine_runs_it_too(crumb, engine, drawn, tmp_path):
    made, _, path = drawn
    check(run_crumb(crumb, path, made.inputs, tmp_path / "libtorch", "--engine", "libtorch"), made)


def test_packed_files_keep_the_codes(crumb, drawn, tmp_path):
    """The packed file has every value, and half a byte a code where the file had half a byte."""
    made, weights, path = drawn
    packed = tmp_path / "net.crumb"
    crumb("export", path, "-o", packed, "--to", "packed")
    check(run_crumb(crumb, packed, made.inputs, tmp_path / "packed"), made)
    stored = crumb_reader.read(packed)
    assert stored.keys() == weights.keys()
    for name, weight in weights.items():
        assert np.array_equal(stored[name], weight.values), name


def test_written_again_every_value_is_the_same(crumb, drawn, tmp_path):
    """From ONNX and from the packed file: the products are MatMulNBits again, of the same values."""
    made, weights, path = drawn
    products = {node.output[0] for node in onnx.load(path).graph.node if node.op_type == "MatMulNBits"}
    
    assert 10 < len(products) < NODES
    crumb("export", path, "-o", tmp_path / "net.crumb", "--to", "packed")
    for source in (path, tmp_path / "net.crumb"):
        out = tmp_path / f"again{source.suffix}.onnx"
        crumb("export", source, "-o", out, "--to", "qcdq", "--weights-as", "MatMulNBits")
        graph = onnx.load(out).graph
        constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        for node in graph.node:
            if node.op_type == "MatMulNBits":
                assert np.array_equal(weight_of(node, constants).values, weights[node.input[1]].values)
        check(run_onnxruntime(out, made.inputs), made)


SPECS = [
    ("int2h:group=16:pad=on", 2), ("int2h:channel", 2), ("int2:group=32:pad=on", 2), ("int2:group=16:pad=on:range=full", 2),
    ("ternary:tensor", 2), ("binary:channel", 2), ("uint2:group=64:pad=on:zero=int", 2), ("uint2:channel:zero=float", 2),
    ("int3:group=48:pad=on", 4), ("int3h:channel", 4), ("int4:group=32:pad=on", 4), ("int4h:group=16:pad=on", 4),
    ("uint4:group=32:pad=on:zero=int", 4), ("uint4:group=16:pad=on:zero=float", 4), ("int4:tensor", 4), ("e1m2:channel", 4),
    ("int5:group=32:pad=on", 8), ("int8:channel", 8), ("uint8:group=64:pad=on:zero=int", 8), ("mxfp4:pad=on", 8),
]  # fmt: skip


def float_network(rng):
    """Products of drawn shapes, one behind each input, and one more that shares the first one's weight."""
    made, shapes = Drawn(), {}
    for i in range(12):
        k, n = int(rng.integers(1, 200)), int(rng.integers(1, 20))
        shapes[f"w{i}"] = made.const(f"w{i}", rng.normal(size=(k, n)).astype(np.float32))
        made.inputs[f"x{i}"] = rng.normal(size=(*rng.integers(1, 4, rng.integers(0, 4)), k)).astype(np.float32)
        made.nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"y{i}"], name=f"n{i}"))
        made.outputs[f"y{i}"] = (np.zeros((*made.inputs[f"x{i}"].shape[:-1], n)), None, np.float32)
    made.nodes.append(helper.make_node("MatMul", ["x0", "w0"], ["shared"], name="shared"))
    made.outputs["shared"] = (made.outputs["y0"][0], None, np.float32)
    return made


@pytest.mark.parametrize("spec, bits", SPECS)
def test_written_products_run_in_onnxruntime(crumb, tmp_path, spec, bits):
    rng = np.random.default_rng(sum(map(ord, spec)))
    made = float_network(rng)
    source = save(made.model(), tmp_path / "net.onnx")
    crumb("quantize", source, "-o", tmp_path / "net.crumb", "--weights", spec)
    out = tmp_path / "out.onnx"
    said = crumb("export", tmp_path / "net.crumb", "-o", out, "--to", "qcdq", "--weights-as", "MatMulNBits")
    assert "12 weights are written as MatMulNBits" in said.stderr
    crumb("export", tmp_path / "net.crumb", "-o", tmp_path / "floats.onnx", "--to", "float")
    decoded = {t.name: numpy_helper.to_array(t) for t in onnx.load(tmp_path / "floats.onnx").graph.initializer}
    graph = onnx.load(out).graph
    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    assert [node.op_type for node in graph.node] == ["MatMulNBits"] * 13
    for node in graph.node:
        said = attributes_of(node)
        assert said["bits"] == bits and said["accuracy_level"] == 1 and 16 <= said["block_size"] <= 256
        weight = weight_of(node, constants)
        assert np.array_equal(weight.values, decoded[node.input[1]].T)
        x = made.inputs[node.input[0]]
        exact = x.astype(np.float64) @ weight.values.astype(np.float64).T
        made.outputs[node.output[0]] = (exact, weight.bound(x), np.float32)
    check(run_onnxruntime(out, made.inputs), made)
    check(run_crumb(crumb, out, made.inputs, tmp_path / "run"), made)
    again = tmp_path / "again.onnx"
    crumb("export", out, "-o", again, "--to", "qcdq", "--weights-as", "MatMulNBits")
    assert again.read_bytes() == out.read_bytes()


def test_compare_decodes_them(crumb, tmp_path):
    """Against the floats that were quantized, constant by constant; and against itself."""
    made = float_network(np.random.default_rng(8))
    source = save(made.model(), tmp_path / "net.onnx")
    crumb("quantize", source, "-o", tmp_path / "net.crumb", "--weights", "int4:group=32:pad=on")
    out, floats = tmp_path / "out.onnx", tmp_path / "floats.onnx"
    crumb("export", tmp_path / "net.crumb", "-o", out, "--to", "qcdq", "--weights-as", "MatMulNBits")
    crumb("export", tmp_path / "net.crumb", "-o", floats, "--to", "float")
    for other in (out, floats):
        rows = json.loads(crumb("compare", out, other, "--json").stdout)["tensors"]
        assert len(rows) == 12 and all(row["exact_fraction"] == 1 for row in rows)
    before = {t.name: numpy_helper.to_array(t).astype(np.float64) for t in onnx.load(source).graph.initializer}
    after = {t.name: numpy_helper.to_array(t).astype(np.float64) for t in onnx.load(floats).graph.initializer}
    for row in json.loads(crumb("compare", source, out, "--json").stdout)["tensors"]:
        error = np.abs(before[row["name"]] - after[row["name"]])
        assert np.isclose(row["max_abs_error"], error.max(), rtol=1e-6)
        assert np.isclose(row["mean_abs_error"], error.mean(), rtol=1e-6)


def test_quantizing_again_says_that_they_stay(crumb, drawn, tmp_path):
    made, weights, path = drawn
    said = crumb("quantize", path, "-o", tmp_path / "again.crumb", "--weights", "int8:channel").stderr
    assert f"{len(weights)} weights are packed codes already and stay as they are" in said
    check(run_crumb(crumb, tmp_path / "again.crumb", made.inputs, tmp_path / "run"), made)


def test_other_nodes_stay_as_they_are_without_it(crumb, tmp_path):
    """Gemm, Gather and Conv keep integers before DequantizeLinear; a weight that a Gather takes, too, is written twice."""
    rng = np.random.default_rng(5)
    constants = [
        numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)
        for name, shape in (("table", (20, 32)), ("w", (32, 20)), ("g", (9, 20)), ("k", (3, 1, 3, 3)))
    ]
    nodes = [
        helper.make_node("Gather", ["table", "at"], ["rows"], name="gather"),
        helper.make_node("MatMul", ["rows", "w"], ["h"], name="product"),
        helper.make_node("Gemm", ["h", "g"], ["y"], name="gemm", transB=1),
        helper.make_node("Conv", ["image", "k"], ["z"], name="conv"),
    ]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("at", TensorProto.INT64, [4]), helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 9]), helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 3, 6, 6])],
        constants,
    )  # fmt: skip
    source = save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "net.onnx")
    crumb("quantize", source, "-o", tmp_path / "net.crumb", "--weights", "int8:channel")
    inputs = {"at": np.array([0, 3, 19, 7]), "image": rng.normal(size=(1, 1, 8, 8)).astype(np.float32)}
    results = []
    for name, flags in (("plain", ()), ("blocks", ("--weights-as", "MatMulNBits")), ("named", ("--weights-as", "qcdq"))):
        out = tmp_path / f"{name}.onnx"
        crumb("export", tmp_path / "net.crumb", "-o", out, "--to", "qcdq", *flags)
        ops = sorted(node.op_type for node in onnx.load(out).graph.node)
        assert ("MatMulNBits" in ops) == (name == "blocks") and ("MatMul" in ops) == (name != "blocks")
        assert {"Gather", "Gemm", "Conv", "DequantizeLinear"} <= set(ops)
        results.append(run_onnxruntime(out, inputs))
    for name in ("y", "z"):
        assert np.allclose(results[0][name], results[1][name], rtol=1e-5, atol=1e-5)
    assert (tmp_path / "plain.onnx").read_bytes() == (tmp_path / "named.onnx").read_bytes()


@pytest.mark.parametrize(
    "spec, said",
    [
        ("nf4:group=32:pad=on", ["'w0' has nf4 codes", "int4:group=32"]),
        ("int4:group=8:pad=on", ["'w0' has groups of 8", "int4:group=16"]),
        ("uint8:channel:zero=float", ["'w0' has uint8 codes and zero points that are floats", "uint8:group=32:zero=int"]),
        ("e4m3fn:channel", ["'w0' has e4m3fn codes", "int8:group=32"]),
    ],
)
def test_what_has_no_form_is_refused_with_one_that_has(crumb, tmp_path, spec, said):
    source = save(float_network(np.random.default_rng(1)).model(), tmp_path / "net.onnx")
    crumb("quantize", source, "-o", tmp_path / "net.crumb", "--weights", spec)
    out = tmp_path / "out.onnx"
    error = crumb("export", tmp_path / "net.crumb", "-o", out, "--to", "qcdq", "--weights-as", "MatMulNBits", status=1).stderr
    assert all(part in error for part in said), error
    assert not out.exists()


def test_a_network_without_packed_products_and_wrong_names_are_said(crumb, tmp_path):
    source = save(float_network(np.random.default_rng(1)).model(), tmp_path / "net.onnx")
    flags = ("-o", tmp_path / "out.onnx", "--to", "qcdq", "--weights-as")
    assert "no MatMul of the network has packed weights" in crumb("export", source, *flags, "MatMulNBits", status=1).stderr
    assert "did you mean 'MatMulNBits'" in crumb("export", source, *flags, "MatMulNbits", status=2).stderr
    said = crumb("export", source, "-o", tmp_path / "out.onnx", "--to", "qonnx", "--weights-as", "MatMulNBits", status=2).stderr
    assert "--weights-as is for --to qcdq" in said
    assert not (tmp_path / "out.onnx").exists()


def one_product(**changes):
    """A MatMulNBits whose parts are replaced: attributes by their names, b, s, z, and inputs behind them."""
    made = Drawn()
    made.inputs["x"] = np.ones((2, 40), np.float32)
    codes = np.zeros((3, 2, 32), np.int64)
    parts = {"b": pack(codes, 4), "s": np.ones((3, 2), np.float32), "z": None, **changes.pop("parts", {})}
    inputs = ["x", made.const("b", parts["b"]), made.const("s", parts["s"])]
    inputs += [made.const("z", parts["z"]) if parts["z"] is not None else "", *changes.pop("more", [])]
    if "g" in inputs:
        made.const("g", np.arange(40, dtype=np.int32) // 32)
    said = {"K": 40, "N": 3, "bits": 4, "block_size": 32, **changes}
    made.nodes.append(helper.make_node("MatMulNBits", inputs, ["y"], name="product", domain=RUNTIME, **said))
    made.outputs["y"] = (np.zeros((2, 3)), None, np.float32)
    return made


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"more": ["g"]}, "g_idx"),
        ({"weight_prepacked": 1}, "weight_prepacked"),
        ({"bits": 3}, "bits=3, expected 2, 4 or 8"),
        ({"block_size": 8}, "block_size=8, expected a power of two from 16 on"),
        ({"block_size": 48}, "block_size=48"),
        ({"K": 0}, "K=0"),
        ({"N": -1}, "N=-1"),
        ({"K": 41 + 32}, "codes of shape [3, 2, 16], expected [3, 3, 16]"),
        ({"bits": 8}, "codes of shape [3, 2, 16], expected [3, 2, 32]"),
        ({"parts": {"s": np.ones((3, 3), np.float32)}}, "scales are float of shape [3, 3], expected 6 numbers"),
        ({"parts": {"s": np.full((3, 2), np.nan, np.float32)}}, "scale 0 is nan"),
        ({"parts": {"z": np.zeros((3, 2), np.uint8)}}, "packed zero points are uint8 of shape [3, 2], expected 3 numbers"),
        ({"parts": {"z": np.full((3, 2), np.inf, np.float32)}}, "zero point 0 is inf"),
        ({"parts": {"z": np.zeros((3, 2), np.float16)}}, "the zero points are float16, expected uint8 or float"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(crumb, tmp_path, changes, said):
    path = save(one_product(**changes).model(), tmp_path / "net.onnx")
    error = crumb("inspect", path, status=1).stderr
    assert "node 'product' (com.microsoft.MatMulNBits)" in error.replace("::", ".") and said in error


def test_codes_that_are_computed_stay_with_onnxruntime(crumb, tmp_path):
    made = one_product()
    made.inputs["b"] = numpy_helper.to_array(made.constants.pop(0))
    path = save(made.model(), tmp_path / "net.onnx")
    assert "MatMulNBits" in crumb("inspect", path).stdout

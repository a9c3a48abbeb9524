"""crumb passes: the list, and outputs that stay the same, in onnxruntime and in qonnx's executor."""

import json

import numpy as np
import pytest

WITH_ENGINE = ["expand-functions", "fold-constants"]
WITHOUT = [
    "infer-shapes",
    "fold-batch-norm",
    "gemm-to-matmul",
    "matmul-to-gemm",
    "extract-conv-bias",
    "remove-identities",
    "fold-transposes",
    "readable-names",
    "tidy",
]


@pytest.fixture
def onnx():
    return pytest.importorskip("onnx")


def random(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def save(onnx, path, nodes, constants, inputs, outputs, opset=13):
    from onnx import TensorProto, helper, numpy_helper

    info = lambda items: [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in items.items()]  # noqa: E731
    graph = helper.make_graph(
        nodes, "g", info(inputs), info(outputs), [numpy_helper.from_array(a, n) for n, a in constants.items()]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def network(onnx, path, opset):
    """A little of everything that passes rewrite."""
    from onnx import helper

    rng = np.random.default_rng(opset)
    make = helper.make_node
    constants = {
        "w1": random(rng, 4, 3, 3, 3),
        "b1": random(rng, 4),
        "w2": random(rng, 4, 2, 2, 2),
        "b2": random(rng, 4),
        "gw": random(rng, 10, 64),
        "gc": random(rng, 10),
        "mw": random(rng, 10, 6),
        "mb": random(rng, 6),
        "zero": np.zeros((), np.float32),
        "one": np.ones(1, np.float32),
        "tw": random(rng, 5, 6),
    }
    for i, channels in (1, 4), (2, 4), (3, 6):
        constants |= {f"s{i}": random(rng, channels), f"o{i}": random(rng, channels), f"m{i}": random(rng, channels)}
        constants[f"v{i}"] = np.abs(random(rng, channels)) + 0.5
    norm = lambda i, x, y: make("BatchNormalization", [x, f"s{i}", f"o{i}", f"m{i}", f"v{i}"], [y], epsilon=1e-3)  # noqa: E731
    nodes = [
        make("Identity", ["x"], ["a0"]),
        make("Conv", ["a0", "w1", "b1"], ["a1"], pads=[1, 1, 1, 1], strides=[2, 2]),
        norm(1, "a1", "a2"),
        make("Relu", ["a2"], ["a3"]),
        make("ConvTranspose", ["a3", "w2", "b2"], ["a4"], group=2),
        norm(2, "a4", "a5"),
        make("Add", ["a5", "zero"], ["a6"]),
        make("MaxPool", ["a6"], ["a6p"], kernel_shape=[2, 2], strides=[1, 1]),
        make("Flatten", ["a6p"], ["a7"]),
        make("Gemm", ["a7", "gw", "gc"], ["a8"], transB=1, alpha=0.5, beta=2.0),
        make("Mul", ["a8", "one"], ["a9"]),
        make("MatMul", ["a9", "mw"], ["a10"]),
        norm(3, "a10", "a10n"),
        make("Add", ["mb", "a10n"], ["a11"]),
        make("Transpose", ["tw"], ["tt"], perm=[1, 0]),
        make("MatMul", ["a11", "tt"], ["a12"]),
        make("Transpose", ["a12"], ["a13"], perm=[0, 1]),
        make("Softmax", ["a13"], ["y"], axis=1),
    ]
    save(onnx, path, nodes, constants, {"x": [2, 3, 8, 8]}, {"y": [2, 5]}, opset)


def run(path, **inputs):
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, inputs)[0]


def test_the_list(crumb):
    listed = json.loads(crumb("passes", "--json").stdout)["passes"]
    assert [p["name"] for p in listed if p["needs_engine"]] == WITH_ENGINE
    assert set(WITHOUT) <= {p["name"] for p in listed}
    text = crumb("passes").stdout
    assert all(p["name"] in text and p["what"] in text for p in listed)


@pytest.mark.parametrize("opset", [9, 13, 17])
@pytest.mark.parametrize("name", [*WITHOUT, "all"])
def test_outputs_stay(crumb, onnx, tmp_path, name, opset):
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    network(onnx, before, opset)
    names = WITHOUT if name == "all" else [name]
    done = json.loads(crumb("passes", before, "-o", after, *names, "--json").stdout)
    assert [p["name"] for p in done["passes"]] == names
    onnx.checker.check_model(onnx.load(after), full_check=True)
    x = random(np.random.default_rng(1), 2, 3, 8, 8)
    expected, found = run(before, x=x), run(after, x=x)
    folds = {"fold-batch-norm", "gemm-to-matmul", "all"}
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-6) if name in folds else np.allclose(found, expected, 1e-6)
    ops = [node.op_type for node in onnx.load(after).graph.node]
    if name == "fold-batch-norm":
        assert ops.count("BatchNormalization") < 3
    if name == "gemm-to-matmul":
        assert "Gemm" not in ops
    if name == "remove-identities":
        assert "Identity" not in ops and ops.count("Transpose") == 1 and "Mul" not in ops
    if name == "fold-transposes":
        assert ops.count("Transpose") == 1
    if name == "extract-conv-bias":
        assert all(len(n.input) == 2 for n in onnx.load(after).graph.node if n.op_type.startswith("Conv"))


def test_passes_with_an_engine(crumb, onnx, engine, tmp_path):
    from onnx import helper

    rng = np.random.default_rng(3)
    nodes = [
        helper.make_node("Mul", ["w", "s"], ["ws"]),
        helper.make_node("Transpose", ["ws"], ["wt"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "wt"], ["a"]),
        helper.make_node("HardSwish", ["a"], ["y"]),
    ]
    constants = {"w": random(rng, 5, 4), "s": random(rng, 5, 1)}
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    save(onnx, before, nodes, constants, {"x": [2, 4]}, {"y": [2, 5]}, 17)
    crumb("passes", before, "-o", after, *WITH_ENGINE)
    x = random(rng, 2, 4)
    assert np.allclose(run(after, x=x), run(before, x=x), rtol=1e-6)
    ops = [node.op_type for node in onnx.load(after).graph.node]
    assert "Transpose" not in ops and ops[0] == "MatMul"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*WITHOUT, "all"])
def test_quantized_networks_stay(crumb, onnx, networks, tmp_path, name):
    execute = pytest.importorskip("qonnx.core.onnx_exec").execute_onnx
    wrapper = pytest.importorskip("qonnx.core.modelwrapper").ModelWrapper
    cleanup = pytest.importorskip("qonnx.util.cleanup").cleanup_model
    model = networks / "TFC_2W2A.onnx"
    crumb("passes", model, "-o", tmp_path / "after.onnx", *(WITHOUT if name == "all" else [name]))
    x = np.random.default_rng(5).uniform(size=(1, 1, 28, 28)).astype(np.float32)
    outputs = []
    for path in (model, tmp_path / "after.onnx"):
        clean = cleanup(wrapper(str(path)))
        outputs.append(next(iter(execute(clean, {clean.graph.input[0].name: x}).values())))
    assert np.allclose(outputs[0], outputs[1], rtol=1e-5, atol=1e-6)


def test_wrong_use(crumb, onnx, tmp_path):
    network(onnx, tmp_path / "m.onnx", 13)
    before = (tmp_path / "m.onnx").read_bytes()
    crumb("passes", tmp_path / "m.onnx", "-o", tmp_path / "m.onnx", "tidy", status=2)
    assert (tmp_path / "m.onnx").read_bytes() == before
    assert "tidy" in crumb("passes", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "tidi", status=2).stderr
    crumb("passes", tmp_path / "m.onnx", status=2)
    crumb("passes", tmp_path / "none.onnx", "-o", tmp_path / "o.onnx", "tidy", status=1)
    assert not (tmp_path / "o.onnx").exists()

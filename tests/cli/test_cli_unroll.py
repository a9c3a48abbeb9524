"""crumb passes unroll-recurrent: cells instead of LSTM, GRU and RNN, with the outputs that onnxruntime has before."""

import numpy as np
import pytest

STEPS, BATCH, INPUTS, UNITS = 5, 3, 4, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@pytest.fixture
def onnx():
    return pytest.importorskip("onnx")


def layer(onnx, path, op, direction="forward", biased=True, initial=False, opset=17, batch=BATCH, **attributes):
    """One layer, all its outputs; X is given by whoever runs it."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(len(op) * 7 + len(direction))
    d = 2 if direction == "bidirectional" else 1
    draw = lambda *shape: rng.normal(size=shape, scale=0.5).astype(np.float32)  # noqa: E731
    gates = GATES[op]
    constants = {"w": draw(d, gates * UNITS, INPUTS), "r": draw(d, gates * UNITS, UNITS)}
    names = ["x", "w", "r", "", "", "", ""]
    if biased:
        constants["b"] = draw(d, 2 * gates * UNITS)
        names[3] = "b"
    inputs = {"x": [STEPS, batch, INPUTS]}
    if initial:
        names[5], inputs["h0"] = "h0", [d, batch, UNITS]
        if op == "LSTM":
            names[6], inputs["c0"] = "c0", [d, batch, UNITS]
    while not names[-1]:
        names.pop()
    outputs = {"y": [STEPS, d, batch, UNITS], "yh": [d, batch, UNITS]}
    if op == "LSTM":
        outputs["yc"] = [d, batch, UNITS]
    if op == "GRU":
        attributes.setdefault("linear_before_reset", 1)
    node = helper.make_node(
        op, names, list(outputs), name="layer", hidden_size=UNITS, direction=direction, **attributes
    )
    info = lambda items: [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in items.items()]  # noqa: E731
    graph = helper.make_graph(
        [node], "g", info(inputs), info(outputs), [numpy_helper.from_array(a, n) for n, a in constants.items()]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return inputs


def run(path, values):
    runtime = pytest.importorskip("onnxruntime")
    return runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, values)


def ops_of(onnx, path):
    return {node.op_type for node in onnx.load(path).graph.node}


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", list(GATES))
def test_outputs_stay(crumb, onnx, tmp_path, op, direction, biased, initial):
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    inputs = layer(onnx, before, op, direction, biased, initial)
    crumb("passes", before, "-o", after, "unroll-recurrent")
    onnx.checker.check_model(onnx.load(after), full_check=True)
    assert op not in ops_of(onnx, after) and "Gemm" in ops_of(onnx, after)
    rng = np.random.default_rng(11)
    values = {name: rng.normal(size=shape).astype(np.float32) for name, shape in inputs.items()}
    for expected, found in zip(run(before, values), run(after, values), strict=True):
        assert found.shape == expected.shape
        assert np.allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [9, 13, 18, 21])
def test_every_operator_set_and_an_open_batch(crumb, onnx, tmp_path, opset):
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    layer(onnx, before, "LSTM", "bidirectional", opset=opset, batch="batch")
    crumb("passes", before, "-o", after, "unroll-recurrent")
    onnx.checker.check_model(onnx.load(after), full_check=True)
    assert "LSTM" not in ops_of(onnx, after)
    for batch in (1, 4):
        values = {"x": np.random.default_rng(batch).normal(size=(STEPS, batch, INPUTS)).astype(np.float32)}
        for expected, found in zip(run(before, values), run(after, values), strict=True):
            assert np.allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "op, attributes",
    [
        ("LSTM", {"clip": 1.0}),
        ("LSTM", {"input_forget": 1}),
        ("LSTM", {"activations": ["HardSigmoid", "Tanh", "Tanh"]}),
        ("GRU", {"linear_before_reset": 0}),
        ("RNN", {"activations": ["Softsign"]}),
    ],
)
def test_the_unusual_stays(crumb, onnx, tmp_path, op, attributes):
    layer(onnx, tmp_path / "before.onnx", op, **attributes)
    crumb("passes", tmp_path / "before.onnx", "-o", tmp_path / "after.onnx", "unroll-recurrent")
    assert ops_of(onnx, tmp_path / "after.onnx") == {op}


def test_an_rnn_of_relus(crumb, onnx, tmp_path):
    layer(onnx, tmp_path / "before.onnx", "RNN", "bidirectional", activations=["Relu", "Relu"])
    crumb("passes", tmp_path / "before.onnx", "-o", tmp_path / "after.onnx", "unroll-recurrent")
    assert "Relu" in ops_of(onnx, tmp_path / "after.onnx")
    values = {"x": np.random.default_rng(2).normal(size=(STEPS, BATCH, INPUTS)).astype(np.float32)}
    for expected, found in zip(
        run(tmp_path / "before.onnx", values), run(tmp_path / "after.onnx", values), strict=True
    ):
        assert np.allclose(found, expected, rtol=1e-5, atol=1e-6)

"""If, Loop and Scan in drawn networks: both engines give what onnxruntime gives."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from case_runner import case_runner
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent))
control = pytest.importorskip("control_networks", reason="onnxruntime is not installed (scripts/setup tests)")

DRAWN = 60


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn")
    cases = []
    for seed in range(DRAWN):
        if not control.draw(seed, folder / str(seed)):
            cases.append(folder / str(seed))
    assert len(cases) > DRAWN * 2 // 3  # onnxruntime takes most of them
    return cases


@pytest.mark.parametrize("program", ["crumb_runtime_cases", "crumb_onnx_cases"])
def test_both_engines_agree_with_onnxruntime(program, drawn):
    verdicts = case_runner(program, "cmake --build --preset release")(drawn)
    wrong = [f"{Path(folder).name}: {v.state}: {v.why}" for folder, v in verdicts.items() if v.state != "passed"]
    assert not wrong, f"{len(wrong)} of {len(verdicts)} cases:\n" + "\n".join(wrong[:20])


def test_loops_and_branches_that_stay_are_written_as_onnxruntime_runs_them(crumb, drawn, tmp_path):
    written, loops = tmp_path / "written.onnx", 0
    for folder in drawn[:24]:
        crumb("passes", folder / "model.onnx", "-o", written, "remove-identities")
        loops += sum(node.op_type in ("Loop", "Scan") for node in onnx.load(written).graph.node)
        session = control.runner(str(written))
        for part in sorted(folder.glob("test_data_set_*")):
            arrays = {kind: [numpy_helper.to_array(onnx.load_tensor(path)) for path in sorted(part.glob(f"{kind}_*.pb"))]
                      for kind in ("input", "output")}  # fmt: skip
            feed = dict(zip((i.name for i in onnx.load(folder / "model.onnx").graph.input), arrays["input"]))
            made = session.run(None, {i.name: feed[i.name] for i in session.get_inputs()})
            for found, expected in zip(made, arrays["output"]):
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=folder.name)
        written.unlink()
    assert loops > 3


FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


def info(name, kind=FLOAT, shape=(2, 3)):
    return helper.make_tensor_value_info(name, kind, shape)


def graph_of(nodes, outputs, inputs=(), constants=()):
    return helper.make_graph(nodes, "g", [info(*i) for i in inputs], [info(o, shape=None) for o in outputs], list(constants))


def branch(op="Relu", value="x", output="b"):
    return graph_of([helper.make_node(op, [value], [output])], [output])


def if_node(then, otherwise, outputs=("y",), name="choice"):
    return helper.make_node("If", ["flag"], list(outputs), name=name, then_branch=then, else_branch=otherwise)


def model_of(nodes, output="y", inputs=(("x",), ("flag", BOOL, ()))):
    graph = graph_of(nodes, [output], inputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)


def field(number, payload):
    """A field of protobuf's bytes, which its Python library does not nest as deep."""
    length, size = b"", len(payload)
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + payload


def nested(depth):
    leaf = branch().SerializeToString()
    graph = leaf
    for _ in range(depth):
        sides = [field(5, field(1, name) + field(6, side)) for name, side in ((b"then_branch", graph), (b"else_branch", leaf))]
        node = field(1, b"flag") + field(2, b"b") + field(4, b"If") + b"".join(sides)
        graph = field(1, node) + field(12, field(1, b"b"))
    inputs = b"".join(field(11, info(*i).SerializeToString()) for i in (("x",), ("flag", BOOL, ())))
    return field(7, graph + inputs) + field(8, helper.make_opsetid("", 16).SerializeToString())


def loop(count, inputs=(("i", INT64, ()), ("c", BOOL, ()), ("s",)), nodes=(), output="t", outputs=("y",)):
    body = graph_of([helper.make_node("Tanh", ["s"], ["t"]), *nodes], ["c", output], inputs)
    return helper.make_node("Loop", [count, "", "x"], list(outputs), name="again", body=body)


def count_of(number):
    return helper.make_node("Constant", [], ["count"], value=numpy_helper.from_array(np.array(number, np.int64)))


def old_scan():
    body = graph_of([helper.make_node("Tanh", ["row"], ["t"])], ["t"], [("row",)])
    model = model_of([helper.make_node("Scan", ["", "x"], ["y"], name="again", body=body, num_scan_inputs=1)])
    model.opset_import[0].version = 8
    return model


HOSTILE = {
    "nested": (nested(80), "refused", "nested more than 64 deep"),
    "nested-less": (nested(60), "failed", "no test data"),
    "no-output": (model_of([if_node(branch(output="b"), graph_of([], ["nothing"]))]), "refused", "'nothing'"),
    "unknown-outer": (model_of([if_node(branch(value="unheard"), branch())]), "refused", "'unheard'"),
    "inner-from-outside": (model_of([if_node(branch(output="in"), branch()), helper.make_node("Relu", ["in"], ["z"])], "z"),
                           "refused", "'in'"),
    "from-the-other-branch": (model_of([if_node(branch(output="in"), branch(value="in"))]), "refused", "'in'"),
    "cycle": (model_of([if_node(branch(value="y"), branch())]), "refused", "cycle"),
    "outputs": (model_of([if_node(branch(), branch(), ["y", "z"])]), "refused", "'choice' (If) makes 2 values, and its then_branch 1"),
    "inputs": (model_of([if_node(graph_of([], ["p"], [("p",)]), branch())]), "refused", "branches take none"),
    "one-branch": (model_of([helper.make_node("If", ["flag"], ["y"], name="choice", then_branch=branch())]), "refused", "'else_branch'"),
    "body-inputs": (model_of([count_of(2), loop("count", [("s",)])]), "refused", "'again' (Loop) takes 3 values, and its body 1"),
    "endless": (model_of([loop("")]), "failed", "no test data"),  # taken, and run for ever
    "many-trips": (model_of([count_of(2**40), loop("count")]), "failed", "no test data"),
    "unknown-inside": (model_of([count_of(2**40), loop("count", nodes=[helper.make_node("Unheard", ["s"], ["u"], name="in")], output="u")]),
                       "unsupported", "'in' (Unheard)"),
    "too-few-outputs": (model_of([count_of(2**40), loop("count", outputs=("y", "z"))]), "refused", "'again' (Loop) makes 2 values"),
    "old-scan": (old_scan(), "unsupported", "'again' (Scan)"),
}  # fmt: skip


def test_what_is_wrong_or_not_executed_is_refused_by_name(tmp_path):
    for name, (model, *_) in HOSTILE.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.onnx").write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    verdicts = case_runner("crumb_runtime_cases", "cmake --build --preset release")([tmp_path / name for name in HOSTILE])
    for name, (_, state, words) in HOSTILE.items():
        found = verdicts[str(tmp_path / name)]
        assert found.state == state and words in found.why, (name, found)


def two_branches():
    """x [1, 8] through one of two layers, each with a weight of its own, and a layer of both."""
    rng = np.random.default_rng(3)
    weight = lambda name, *size: numpy_helper.from_array(rng.normal(size=size).astype(np.float32) / 3, name)  # noqa: E731
    layers = []
    for side in ("then", "else"):
        nodes = [helper.make_node("MatMul", ["x", f"w_{side}"], [f"m_{side}"], name=f"layer_{side}"),
                 helper.make_node("Relu", [f"m_{side}"], [f"r_{side}"], name=f"relu_{side}"),
                 helper.make_node("MatMul", [f"r_{side}", f"v_{side}"], [f"o_{side}"], name=f"second_{side}")]  # fmt: skip
        layers.append(graph_of(nodes, [f"o_{side}"], (), [weight(f"w_{side}", 8, 16), weight(f"v_{side}", 16, 8)]))
    nodes = [helper.make_node("If", ["flag"], ["h"], name="choice", then_branch=layers[0], else_branch=layers[1]),
             helper.make_node("MatMul", ["h", "last"], ["y"], name="last_layer")]  # fmt: skip
    inputs = [info("x", shape=[1, 8]), info("flag", BOOL, [1])]
    graph = helper.make_graph(nodes, "two", inputs, [info("y", shape=[1, 4])], [weight("last", 8, 4)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)


def inputs_in(folder, flag, arrays):
    """The command's flags for these arrays."""
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return [part for name in arrays for part in (flag, f"{name}={folder / name}.npy")]


def samples_of(tmp_path, flags):
    x = np.random.default_rng(5).normal(size=(24, 8)).astype(np.float32)
    return inputs_in(tmp_path, "--data", {"x": x, "flag": np.resize(np.array(flags), 24)})


@pytest.mark.parametrize("flags", [[True], [True, False]], ids=["one branch", "both"])
def test_branches_are_quantized_and_a_qcdq_file_has_the_if(crumb, tmp_path, flags):
    model, written = tmp_path / "two.onnx", tmp_path / "two_qcdq.onnx"
    onnx.save(two_branches(), model)
    done = crumb("quantize", model, "-o", written, "--to", "qcdq", "--scheme", "W8A8", *samples_of(tmp_path, flags))
    for name in ("w_then", "w_else", "v_then", "v_else", "last"):
        assert any(line.startswith(name) and "int8:channel" in line for line in done.stdout.splitlines()), name
    says = done.stdout + done.stderr
    assert ("no calibration sample took the branch" in says) == (flags == [True]), says
    found = onnx.load(written)
    assert [node.op_type for node in found.graph.node].count("If") == 1
    session = control.runner(written.read_bytes())
    for flag in (True, False):
        feed = {"x": np.random.default_rng(7).normal(size=(1, 8)).astype(np.float32), "flag": np.array([flag])}
        crumb("run", written, *inputs_in(tmp_path, "--input", feed), "--output", tmp_path / "y.npy")
        made = np.load(tmp_path / "y.npy")
        expected = session.run(None, feed)[0]
        floats = control.runner(model.read_bytes()).run(None, feed)[0]
        assert np.abs(made - expected).max() <= 2e-6 * np.abs(expected).max()  # both sum in floats, in different orders
        assert 0 < np.abs(made - floats).max() < 0.1 * np.abs(floats).max()


def product(path, weight):
    """x [n, in] times one weight."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", [info("x", shape=["n", weight.shape[0]])], [info("y", shape=["n", weight.shape[1]])],
                              [numpy_helper.from_array(weight, "w")])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8), path)


def layers_of(crumb, model, *flags, stages="gptq"):
    done = crumb("quantize", model, "-o", model.with_suffix(".crumb"), "--weights", "int3:channel", "--stages", stages, *flags, "--json")
    (stage,) = json.loads(done.stdout)["stages"]
    return {layer["layer"]: (layer["before"], layer["after"]) for layer in stage["layers"]}, stage["notes"]


@pytest.mark.parametrize("stages", ["gptq", "gptq:float_inputs=off", "gpfq", "qronos"])
def test_weights_in_branches_are_rounded_by_the_samples_that_take_them(crumb, tmp_path, stages):
    """Errors are those of the layer alone, on the inputs that it has in the float network."""
    model = tmp_path / "two.onnx"
    onnx.save(two_branches(), model)
    weights = {w.name: numpy_helper.to_array(w) for node in two_branches().graph.node for a in node.attribute for w in a.g.initializer}
    data = samples_of(tmp_path, [True, False, False])
    found, notes = layers_of(crumb, model, *data, stages=stages)
    assert set(found) == {"last", *weights} and not any("branch" in note for note in notes), notes
    x, flags = np.load(tmp_path / "x.npy"), np.load(tmp_path / "flag.npy")
    for side, taken in (("then", flags), ("else", ~flags)):
        first, second = weights[f"w_{side}"], weights[f"v_{side}"]
        for name, inputs in ((f"w_{side}", x[taken]), (f"v_{side}", np.maximum(x[taken] @ first, 0))):
            alone = tmp_path / f"{name}.onnx"
            product(alone, weights[name])
            np.save(tmp_path / "alone.npy", inputs)
            (expected,) = layers_of(crumb, alone, "--data", tmp_path / "alone.npy", stages=stages)[0].values()
            assert found[name] == pytest.approx(expected, rel=1e-3), name
            assert found[name][1] < found[name][0]
            everywhere = x if name.startswith("w") else np.maximum(x @ first, 0)
            np.save(tmp_path / "alone.npy", everywhere)
            (of_all,) = layers_of(crumb, alone, "--data", tmp_path / "alone.npy", stages=stages)[0].values()
            assert found[name] != pytest.approx(of_all, rel=1e-3), "samples of the other branch count"


def test_weights_in_a_branch_that_no_sample_takes_keep_rounding(crumb, tmp_path):
    model = tmp_path / "two.onnx"
    onnx.save(two_branches(), model)
    flags = [*samples_of(tmp_path, [True]), "--exclude", "last"]
    found, notes = layers_of(crumb, model, *flags)
    assert set(found) == {"w_then", "v_then"}
    (note,) = [note for note in notes if "no sample came" in note]
    assert "'w_else'" in note and "'v_else'" in note and "then" not in note
    rounded = tmp_path / "rounded.crumb"
    crumb("quantize", model, "-o", rounded, "--weights", "int3:channel", "--method", "rounding", *flags)
    feed = {"x": np.random.default_rng(7).normal(size=(1, 8)).astype(np.float32), "flag": np.array([False])}
    made = []
    for file in (model.with_suffix(".crumb"), rounded):
        crumb("run", file, *inputs_in(tmp_path, "--input", feed), "--output", tmp_path / "y.npy")
        made.append(np.load(tmp_path / "y.npy"))
    assert np.array_equal(*made), "codes of the branch are rounding's"

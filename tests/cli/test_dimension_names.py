"""Open dimensions whose names say nothing: PaddlePaddle's exporter gives every open axis of an input one name."""

import json

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import helper, numpy_helper  # noqa: E402

SHAPE = (2, 3, 12, 20)


def network(path, names, says_inside=True, second=None):
    """A convolution, what keeps its size, and a reshape by its own sizes; a second input may take a name as well."""
    random = np.random.default_rng(0)
    weights = numpy_helper.from_array(random.normal(size=(4, 3, 3, 3)).astype(np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Shape", ["r"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "two"], ["front"]),
        helper.make_node("Concat", ["front", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["r", "target"], ["flat"]),
        helper.make_node("Add", ["flat", "bias"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", 1, [names[0], 3, names[1], names[2]])]
    constants = [weights, numpy_helper.from_array(np.array([0], np.int64), "zero"), numpy_helper.from_array(np.array([2], np.int64), "two"),
                 numpy_helper.from_array(np.array([-1], np.int64), "rest")]  # fmt: skip
    if second is None:
        constants.append(numpy_helper.from_array(np.ones(1, np.float32), "bias"))
    else:
        inputs.append(helper.make_tensor_value_info("bias", 1, second))
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", 1, [names[0], 4, names[1]])], constants)
    if says_inside:
        graph.value_info.append(helper.make_tensor_value_info("c", 1, [names[0], 4, names[1], names[2]]))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


@pytest.fixture
def sample(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(1).normal(size=SHAPE).astype(np.float32))
    return tmp_path / "x.npy"


def answer_of(path, **inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # it warns of the shapes that the file states
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, inputs)[0]


@pytest.mark.parametrize("says_inside", [True, False])
@pytest.mark.parametrize("names", [("n", "n", "n"), ("n", "m", "m"), ("n", "n", "m"), ("?", "?", "?"), (-1, -1, -1)])
def test_a_name_of_two_sizes_is_passed_over(crumb, tmp_path, sample, names, says_inside, request):
    path = network(tmp_path / "net.onnx", names, says_inside)
    wanted = answer_of(str(path), x=np.load(sample))
    note = [name for name in ("n", "m") if len({SHAPE[i] for i, own in zip((0, 2, 3), names, strict=True) if own == name}) > 1]
    for engine in ("runtime", "libtorch"):
        if engine == "libtorch":
            request.getfixturevalue("engine")
        done = crumb("run", path, "--input", f"x={sample}", "--output", tmp_path / "y.npy", "--engine", engine)
        assert np.allclose(np.load(tmp_path / "y.npy"), wanted, atol=1e-5)
        for name in ("n", "m"):
            assert (f"the name {name} says nothing: input 'x' is [" in done.stderr) == (name in note)
    shape = "x=" + "x".join(map(str, SHAPE))
    done = crumb("cost", path, "--shape", shape, "--json")
    assert json.loads(done.stdout)["dense"]["macs"] == 2 * 4 * 6 * 10 * 3 * 9
    done = crumb("quantize", path, "-o", tmp_path / "q.onnx", "--to", "qcdq", "--scheme", "W8A8", "--data", sample)
    assert all(f"the name {name} says nothing" in done.stderr for name in note)
    crumb("export", path, "-o", tmp_path / "bound.onnx", "--to", "float", "--shape", shape)
    bound = onnx.load(tmp_path / "bound.onnx").graph.output[0].type.tensor_type.shape.dim
    assert [axis.dim_value for axis in bound] == [2, 4, 60]
    assert np.allclose(answer_of(str(tmp_path / "q.onnx"), x=np.load(sample)), wanted, atol=0.3)


def test_names_of_several_inputs_still_have_to_agree(crumb, tmp_path, sample):
    """What differs between two inputs is a mistake of who gives them, unless the name says nothing within one."""
    np.save(tmp_path / "b.npy", np.ones((1, 4, 1), np.float32))
    inputs = ["--input", f"x={sample}", "--input", f"bias={tmp_path / 'b.npy'}"]
    good = network(tmp_path / "good.onnx", ("n", "h", "w"), second=[1, "n", 1])
    assert "expected float [1, n, 1], found float [1, 4, 1]" in crumb("run", good, *inputs, "--output", tmp_path / "y.npy", status=1).stderr
    poor = network(tmp_path / "poor.onnx", ("n", "n", "n"), second=[1, "n", 1])
    crumb("run", poor, *inputs, "--output", tmp_path / "y.npy")
    assert np.load(tmp_path / "y.npy").shape == (2, 4, 60)

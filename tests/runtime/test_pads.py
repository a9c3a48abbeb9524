"""Networks whose layers have a Pad in front of them, as PyTorch and TensorFlow write padding that is not symmetric:
quantized, run in integers, and against onnxruntime on the QCDQ file."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

MODES = ["constant", "edge", "reflect"]


def padded_network(path, mode, groups, layers=3, channels=8, size=12):
    """Pad, Conv and Relu, `layers` times; the padding is not symmetric, and every other layer has a stride of 2."""
    rng = np.random.default_rng(MODES.index(mode))
    nodes, constants, name, inputs = [], [], "x", 3

    def constant(what, array):
        constants.append(numpy_helper.from_array(np.asarray(array), what))
        return what

    for i in range(layers):
        group = groups if i else 1
        w = (rng.normal(size=(channels, inputs // group, 3, 3)) * np.sqrt(2 / (9 * inputs / group))).astype(np.float32)
        pads = constant(f"pads{i}", np.array([0, 0, 1, 0, 0, 0, 1, 2], np.int64))
        nodes.append(h.make_node("Pad", [name, pads], [f"p{i}"], name=f"pad{i}", mode=mode))
        bias = constant(f"b{i}", rng.normal(size=channels).astype(np.float32) * np.float32(0.1))
        nodes.append(h.make_node("Conv", [f"p{i}", constant(f"w{i}", w), bias], [f"c{i}"], name=f"conv{i}",
                                 strides=[1 + i % 2] * 2, group=group))  # fmt: skip
        nodes.append(h.make_node("Relu", [f"c{i}"], [f"r{i}"], name=f"relu{i}"))
        name, inputs = f"r{i}", channels
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, ["n", 3, size, size])],
                         [h.make_tensor_value_info(name, T.FLOAT, None)], constants)  # fmt: skip
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    return layers


@pytest.mark.parametrize("groups", [1, 8])
@pytest.mark.parametrize("mode", MODES)
def test_layers_behind_pads_are_integers_and_agree_with_onnxruntime(crumb, tmp_path, mode, groups):
    import onnxruntime

    layers = padded_network(tmp_path / "net.onnx", mode, groups)
    x = np.random.default_rng(7).normal(size=(32, 3, 12, 12)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    for form in ("qonnx", "qcdq"):
        crumb("quantize", tmp_path / "net.onnx", "-o", tmp_path / f"{form}.onnx", "--to", form, "--scheme", "W8A8",
              "--data", tmp_path / "x.npy")  # fmt: skip
    said = json.loads(crumb("inspect", tmp_path / "qonnx.onnx", "--json").stdout)["runtime"]
    assert len(said["integers"]) == layers and not said["floats"]
    assert len(said["thresholds"]) == layers - 1  # the last layer has no quantizer behind it

    def by_crumb(path):
        crumb("run", path, "--engine", "runtime", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
        return np.load(tmp_path / "y.npy")

    found = by_crumb(tmp_path / "qonnx.onnx")
    (theirs,) = onnxruntime.InferenceSession(tmp_path / "qcdq.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": x})
    # Sums of float32 may round to the code beside: few do, and by one step. A wrong border is a tenth and more.
    for one, other in ((found, theirs), (by_crumb(tmp_path / "qcdq.onnx"), theirs)):
        assert one.shape == other.shape
        assert np.linalg.norm(one - other) < 0.003 * np.linalg.norm(other)

"""A network that takes and gives states, with their batch on axis 0 or 1, and samples for both."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HIDDEN = 8


def drawn(rng, *shape):
    return (rng.normal(size=shape) * 0.4).astype(np.float32)


def node(op, inputs, output, **how):
    return helper.make_node(op, inputs.split(), output.split(), name=output, **how)


def write_recurrent(path, batch_axis, batch="n"):
    """An LSTM's last state, and scores from it. `batch`: the size in the file, or a symbol."""
    rng = np.random.default_rng(5)
    constants = {"w": drawn(rng, 1, 4 * HIDDEN, 3), "r": drawn(rng, 1, 4 * HIDDEN, HIDDEN), "b": drawn(rng, 1, 8 * HIDDEN), "fc": drawn(rng, HIDDEN, 2),
                 "zero": np.array([0])}  # fmt: skip
    nodes = [node("Transpose", "x", "t", perm=[1, 0, 2])]
    state = {"h0": "h0", "c0": "c0"}
    if batch_axis == 0:
        nodes += [node("Transpose", name, f"{name}.t", perm=[1, 0, 2]) for name in state]
        state = {name: f"{name}.t" for name in state}
    nodes += [helper.make_node("LSTM", ["t", "w", "r", "b", "", state["h0"], state["c0"]], ["all", "last", ""], name="lstm", hidden_size=HIDDEN)]
    nodes += [node("Transpose", "last", "hn", perm=[1, 0, 2]) if batch_axis == 0 else node("Identity", "last", "hn")]
    nodes += [node("Squeeze", "last zero", "flat"), node("MatMul", "flat fc", "y")]
    shape = [batch, 1, HIDDEN] if batch_axis == 0 else [1, batch, HIDDEN]
    values = lambda shapes: [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]  # noqa: E731
    graph = helper.make_graph(nodes, "g", values({"x": [batch, 5, 3], "h0": shape, "c0": shape}), values({"y": [batch, 2], "hn": shape}),
                              [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def write_states(folder, samples=200):
    """x.npy, labels.npy, and of the states h_0.npy, c_0.npy (batch on axis 0), h_1.npy and c_1.npy (on axis 1)."""
    rng = np.random.default_rng(8)
    x, states = drawn(rng, samples, 5, 3) * 2.5, {"h": drawn(rng, samples, 1, HIDDEN), "c": drawn(rng, samples, 1, HIDDEN)}
    np.save(folder / "x.npy", x)
    np.save(folder / "labels.npy", (x.sum((1, 2)) > 0).astype(np.int64))
    for name, value in states.items():
        np.save(folder / f"{name}_0.npy", value)
        np.save(folder / f"{name}_1.npy", value.transpose(1, 0, 2).copy())


def arrays(flag, axis):
    """The flags that give a network all its inputs."""
    return [part for name, file in (("x", "x"), ("h0", f"h_{axis}"), ("c0", f"c_{axis}")) for part in (flag, f"{name}={file}.npy")]


def axes(*names):
    return [part for name in names for part in ("--batch-axis", f"{name}=1")]

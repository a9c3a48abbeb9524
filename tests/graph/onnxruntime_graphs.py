"""Graphs of drawn nodes, and what onnxruntime makes of them."""

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

ONLY_WARN_OF_ERRORS = 3


def session(path, rounds_inputs=True):
    """Products with decoded weights round their inputs to 8 bits, unless the session says otherwise."""
    options = onnxruntime.SessionOptions()
    if not rounds_inputs:
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    options.log_severity_level = ONLY_WARN_OF_ERRORS
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class Drawn:
    """A graph of independent nodes, each with inputs of its own, so that one run of each program compares all."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.inputs, self.constants, self.outputs, self.feeds, self.counted = [], [], [], [], {}, {}

    def size(self, low=1, high=6):
        return int(self.random.integers(low, high))

    def name(self, what):
        return f"{what}_{len(self.nodes)}_{len(self.constants) + len(self.inputs)}"

    def constant(self, array):
        name = self.name("c")
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def given(self, array):
        name = self.name("x")
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
        self.feeds[name] = array
        return name

    def floats(self, *shape):
        return self.random.normal(size=shape).astype(np.float32)

    def codes(self, shape, kind):
        info = np.iinfo(kind)
        return self.random.integers(info.min, info.max + 1, size=shape).astype(kind)

    def scale(self, channels=None):
        return self.constant(self.random.uniform(0.005, 0.05, size=channels or ()).astype(np.float32))

    def zero(self, kind, channels=None):
        return self.constant(self.random.integers(*((100, 150) if kind == np.uint8 else (-20, 20)), size=channels or ()).astype(kind))

    def kind(self):
        return self.random.choice([np.uint8, np.int8])

    def quantized(self, shape, kind):
        """The three inputs of a quantized value."""
        return [self.given(self.codes(shape, kind)), self.scale(), self.zero(kind)]

    def node(self, op, inputs, outputs=1, domain="com.microsoft", shown=None, **attributes):
        names = [f"y_{len(self.nodes)}_{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
        self.nodes.append(helper.make_node(op, inputs, names, name=f"n{len(self.nodes)}", domain=domain, **attributes))
        self.outputs += [name for name in names if name]

    def save(self, path):
        # Types of outputs are those that onnxruntime finds.
        values = [helper.make_empty_tensor_value_info(name) for name in self.outputs]
        graph = helper.make_graph(self.nodes, "g", self.inputs, values, self.constants)
        opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
        return path


def feed(folder, feeds):
    arguments = []
    for name, array in feeds.items():
        np.save(folder / f"{name}.npy", array)
        arguments += ["--input", f"{name}={folder / name}.npy"]
    return arguments


def compare_with_onnxruntime(crumb, folder, drawn, engine="runtime"):
    """Runs the drawn graph in both. Yields for each output: its name, the operator, what Crumb made, what onnxruntime made."""
    path = drawn.save(folder / "net.onnx")
    wanted = dict(zip(drawn.outputs, session(path).run(drawn.outputs, drawn.feeds), strict=True))
    crumb("run", path, *feed(folder, drawn.feeds), "--output-dir", folder / engine, "--engine", engine)
    ops = {name: node.op_type for node in drawn.nodes for name in node.output}
    for name, values in wanted.items():
        made = np.load(folder / engine / f"{name}.npy")
        assert (made.shape, made.dtype) == (values.shape, values.dtype), ops[name]
        yield name, ops[name], made, values

"""Graphs of quantizers, what they compute by qonnx's own functions, and what a file holds of them."""

import itertools
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

QONNX = "qonnx.custom_op.general"


@dataclass
class Case:
    """One Quant (or BipolarQuant, FloatQuant, Trunc): of the input, or of a constant."""

    data: np.ndarray | None  # None: of the graph's input
    scale: np.ndarray
    bits: float = 8
    signed: int = 1
    narrow: int = 0
    zeropt: np.ndarray = field(default_factory=lambda: np.float32(0))
    mode: str = "ROUND"
    op: str = "Quant"

    @property
    def format(self):
        return float(self.bits), self.signed, self.narrow


class Net:
    """Cases side by side: one input, one output for each."""

    def __init__(self, shape, opset=13, qonnx=1):
        self.shape, self.opset, self.qonnx = list(shape), opset, qonnx
        self.nodes, self.constants, self.outputs, self.cases = [], [], [], {}

    def const(self, name, array, dtype=np.float32):
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def node(self, op, inputs, name, domain="", **attributes):
        self.nodes.append(helper.make_node(op, inputs, [f"{name}_out"], name=name, domain=domain, **attributes))
        return f"{name}_out"

    def output(self, name, shape):
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def add(self, name, case, x="x"):
        self.cases[name] = case
        shape = self.shape
        if case.data is not None:
            x, shape = self.const(f"{name}_data", case.data), list(case.data.shape)
        inputs = [x, self.const(f"{name}_s", case.scale)]
        attributes = {}
        if case.op == "Quant":
            inputs += [self.const(f"{name}_z", case.zeropt), self.const(f"{name}_b", case.bits)]
            attributes = {"signed": case.signed, "narrow": case.narrow, "rounding_mode": case.mode}
        out = self.node(case.op, inputs, name, QONNX, **attributes)
        self.output(out, shape)
        return out

    def model(self):
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        graph = helper.make_graph(self.nodes, "net", [x], self.outputs, self.constants)
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid(QONNX, self.qonnx)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)


def expected(case, x):
    """What qonnx's own function makes of it."""
    from qonnx.custom_op.general.quant import quant

    data = x if case.data is None else np.asarray(case.data, np.float32)
    scale = np.asarray(case.scale, np.float32)
    if case.op == "BipolarQuant":
        return np.where(data >= 0, scale, -scale).astype(np.float32)
    zeropt, bits = np.asarray(case.zeropt, np.float32), np.float32(case.bits)
    return quant(data, scale, zeropt, bits, case.signed, case.narrow, case.mode).astype(np.float32)


def run(path, x, optimize=False):
    """The outputs of onnxruntime by name."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Else fused products of 8 bits add up pairs in 16 bits, which saturate, on x86 processors without VNNI.
    options.add_session_config_entry("session.x64quantprecision", "1")
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {i.name: x for i in session.get_inputs()})))


@dataclass
class Found:
    op: str
    data: np.ndarray | None
    scale: np.ndarray
    zeropt: np.ndarray
    bits: float
    signed: int
    narrow: int
    mode: str

    @property
    def format(self):
        return self.bits, self.signed, self.narrow


def quantizers(path):
    """The quantizers of a QONNX file by the name of their output."""
    graph = onnx.load(path).graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    found = {}
    for node in graph.node:
        if node.domain != QONNX:
            continue
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        data, scale = constants.get(node.input[0]), constants[node.input[1]]
        if node.op_type == "Quant":
            zeropt, bits = constants[node.input[2]], constants[node.input[3]]
            assert bits.shape == () and bits.dtype == np.float32
            assert set(attributes) == {"signed", "narrow", "rounding_mode"}
            found[node.output[0]] = Found(
                "Quant", data, scale, zeropt, float(bits), attributes["signed"], attributes["narrow"],
                attributes["rounding_mode"].decode(),
            )  # fmt: skip
        else:
            found[node.output[0]] = Found(node.op_type, data, scale, np.float32(0), 1, 1, 0, "ROUND")
    return found


def integers(data, scale, zeropt, bits, signed, narrow, mode):
    """The codes a Quant makes, as qonnx computes them."""
    from qonnx.custom_op.general.quant import quant

    data, scale, zeropt = (np.asarray(a, np.float32) for a in (data, scale, zeropt))
    one = np.float32(1)
    levels = quant((data / scale).astype(np.float32), one, zeropt, np.float32(bits), signed, narrow, mode)
    return np.rint(levels + zeropt).astype(np.int64)


def formats(widths):
    """(bits, signed, narrow) for all that are quantizers; one signed bit is another matter."""
    for bits, signed, narrow in itertools.product(widths, (0, 1), (0, 1)):
        if bits > 1 or not (signed or narrow):
            yield bits, signed, narrow


def counts(path):
    ops = {}
    for node in onnx.load(path).graph.node:
        ops[node.op_type] = ops.get(node.op_type, 0) + 1
    return ops
